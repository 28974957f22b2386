-- push_once: enqueue the callback of a batch, or some of its members, unless that was done before, or given up.
--
-- KEYS[1] jobs       LIST+  waiting envelopes; behind `:pushed:<batch>` what of it was pushed here, behind `:batches` the batches that are to be looked
--   after from here, behind `:stopped` and `:paused:<batch>` see stop_batch.lua
-- KEYS[2] token      STRING  the last token of the queue
-- KEYS[3] bell       LIST    at most one token; wakes the process that keeps the timer
-- KEYS[4] scheduled  ZSET    envelope -> due time in ms
-- ARGV[1] group  the batch
-- ARGV[2] field  the name of the callback, or what the members have in common, with a point in it
-- ARGV[3] now list, terms, when, how, how many, envelopes; repeated: terms as in `push`, or with 'callback' behind for what is never refused; when:
--   '' for now, 'in' and ms from now, or 'at' and a time in ms; how: 'LPUSH', or 'RPUSH' to the front. Without any it is given up.
--
-- Returns {'ok'}; {'again'} where that was done before; {'void'} where it was given up; {'full', which, how many wait, how many may} where more would
-- wait than may: nothing was written then.
-- Invariant: what has one field is enqueued once, and not any more where it was given up, however often this is repeated within 7 days.
local call = redis.call
local jobs, token_key, bell, scheduled = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- It holds no lease.
local progress = ''
local pushed, field = jobs .. ':pushed:' .. ARGV[1], ARGV[2]

local said = call('HGET', pushed, field)
if said then return {said == '1' and 'again' or 'void'} end
-- include lists
-- include full
local is_plain, needs_limits, is_delayed, which, i = true, false, false, 0, 3
while ARGV[i] do
  local list, terms, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 4])
  look_at_list(list)
  is_plain, is_delayed = is_plain and list == '', is_delayed or ARGV[i + 2] ~= ''
  needs_limits = needs_limits or terms ~= ''
  -- A callback is never refused, and the plain list has no bound.
  local is_bound = list ~= '' and ARGV[i + 2] == '' and not string.find(terms, ' callback$')
  for j = 0, is_bound and n - 1 or -1 do
    local waits, most = full(list, terms)
    if waits then return {'full', which + j, waits, most} end
  end
  which = which + n
  i = i + 5 + n
end
call('LLEN', bell)
local has_members = ARGV[3] and string.find(field, '.', 1, true)
local paused, is_paused_batch = jobs .. ':paused:' .. ARGV[1], false
if has_members then
  call('ZCARD', jobs .. ':batches')
  is_paused_batch = call('HGET', jobs .. ':stopped', ARGV[1]) == 'paused'
  if is_paused_batch then call('LLEN', paused) end
end
local first = is_delayed and call('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
-- First, as a full server lets a script go on once it has written.
call('HDEL', pushed, '')
if not is_plain then
  -- include mark
end
call('HSET', pushed, field, ARGV[3] and '1' or 'void')
call('EXPIRE', pushed, 604800)
if not ARGV[3] then return {'void'} end

-- include clock
-- Wherever there is a worker that may run members, somebody looks after the batch.
if has_members then call('ZADD', jobs .. ':batches', 'NX', now + 60000, ARGV[1]) end
-- include place
local due = math.huge
i = 3
while ARGV[i] do
  local list, terms, when, how, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
  local from, to, step = i + 5, i + 4 + n, 1
  if how == 'RPUSH' then from, to, step = to, from, -1 end
  local kind, ms = string.match(when, '^(%l+) (%d+)$')
  if kind then
    local at = kind == 'in' and now + ms or tonumber(ms)
    due = math.min(due, at)
    for j = from, to, step do
      call('ZADD', scheduled, string.format('%.0f', at), later(list, ARGV[j], string.match(terms, '^(%d+)')))
    end
  elseif is_paused_batch then
    -- A worker that does not know it yet would start them.
    for j = from, to, step do call('RPUSH', paused, later(list, ARGV[j], string.match(terms, '^(%d+)'))) end
  elseif list == '' and terms == '' and step == 1 then
    call('LPUSH', jobs, unpack(ARGV, from, to))
  else
    for j = from, to, step do place(how, list, terms, ARGV[j]) end
  end
  i = i + 5 + n
end
if is_delayed then
  -- include wake
end
return {'ok'}
