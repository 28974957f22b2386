-- limit: set, or no longer set, what holds for a limit.
--
-- KEYS[1] jobs    LIST+   waiting envelopes; behind `:control` what is in force, behind `:overrides` that of one key
-- KEYS[2] token   STRING  the last token of the queue
-- KEYS[3] workers ZSET    worker -> last heartbeat in ms
-- KEYS[4] bell    LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] limit   its name; with a key `<limit>=`, of one key `<limit>=<key>`, of the queue `*`
-- ARGV[2] type    a job type whose jobs belong to a list with this limit from now on, or ''
-- ARGV[3] now field, value; repeated: 'set' how many at once, 'set_rate' '<count> <period in ms> <burst>', 'max' how many may wait, 'paused'
--   for so many ms, 0 until it is resumed; '' for a value is set no more
--
-- Returns how many of the fields were set before.
-- Invariant: what is taken afterwards is taken by calls that know of it, and a worker is told of what may be taken now.
local call = redis.call
local jobs, token_key, bell = KEYS[1], KEYS[2], KEYS[4]
local limit, job_type = ARGV[1], ARGV[2]

-- include clock
-- include lists
-- include pause
-- include timers
-- include types
local key = jobs .. (string.find(limit, '^[^=]+=.') and ':overrides' or ':control')
local were_set, changes_pause = 0, false
for i = 3, #ARGV, 2 do
  local what = ARGV[i]
  changes_pause = changes_pause or what == 'paused'
  local before = call('HGET', key, what .. ':' .. limit)
  if before and (what ~= 'paused' or is_paused(before)) then were_set = were_set + 1 end
end
-- A removal first: a full server lets a script go on once it has written.
for i = 3, #ARGV, 2 do
  local what = ARGV[i]
  call('HDEL', key, what .. ':' .. limit)
end
local opens = now
for i = 3, #ARGV, 2 do
  local what, value = ARGV[i], ARGV[i + 1]
  if what == 'paused' and value ~= '' then
    opens = value ~= '0' and now + tonumber(value) or nil
    value = opens and string.format('%.0f', opens) or value
  end
  if value ~= '' then call('HSET', key, what .. ':' .. limit, value) end
end
if job_type ~= '' and changes_pause then
  if call('HEXISTS', key, 'paused:' .. job_type) == 1 then note_type(job_type) else forget_type(job_type) end
end
-- include mark
local has_lists = call('ZCARD', lists) > 0
if opens and (has_lists or opens > now) then set_timer('!' .. limit, opens, 'CH') end
if has_lists then leave_ticket() end
if limit == '*' then
  -- They may take as many as there is room for.
  local workers = KEYS[3]
  -- include gate
end
return were_set
