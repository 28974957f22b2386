-- declare: say what a program declares in its code. It is in force if none of its tables that live is a newer one.
--
-- KEYS[1] jobs      LIST+   waiting envelopes; behind `:tables` which programs declare what, behind `:control` the limits in force, behind `:cron`
--   the cron entries
-- KEYS[2] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] app       the name of the program
-- ARGV[2] hash      of all that follows
-- ARGV[3] live      ms; a table of which no worker told for so long has none
-- ARGV[4] steady    ms for which the caller has reached the server
-- ARGV[5] n         how many limits follow: 'limit:<limit>' how many at once, 'rate:<limit>' '<count> <period in ms> <burst>'; '' for a value where
--   there is none
-- ARGV[6] and for each cron entry: its name; what it says; when it is due next, in ms, or ''; '1' if it is due once for each table
--
-- Returns {1 if it is in force or 0, the hash that was before or ''}; {2, ''} where an entry is due by now: the caller reckons again.
-- Invariant: what somebody set by hand goes on to hold, and what another program declares. An entry that says the same goes on as it was.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local app, hash, live, steady, n = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local control = jobs .. ':control'
-- An entry that is due so much later than it says was fired while the clock was wrong.
local far = 2 * 86400000
-- Tables of so many ms ago are forgotten.
local forgotten = 30 * 86400000

-- include clock
-- include timers
-- include cron
-- include tables
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
call('HLEN', control)
call('HLEN', cron)
call('ZCARD', timers)
call('LLEN', bell)
for i = 8 + 2 * n, #ARGV, 4 do
  if (tonumber(ARGV[i]) or math.huge) <= now then return {2, ''} end
end
local all = known_tables()
local own = app .. ' ' .. hash
-- A removal first: a full server lets a script go on once it has written.
call('HDEL', tables, '')
local first = tonumber(all['first:' .. own])
if not first then
  first = now
  -- The clock may have been ahead when the others were seen.
  for field, at in pairs(all) do
    if string.find(field, 'first:' .. app .. ' ', 1, true) == 1 then first = math.max(first, (tonumber(at) or 0) + 1) end
  end
  call('HSET', tables, 'first:' .. own, string.format('%.0f', first))
end
all['first:' .. own], all['seen:' .. own] = first, now
call('HSET', tables, 'seen:' .. own, string.format('%.0f', now))
for field in pairs(all) do
  local of = string.match(field, '^seen:(.*)$')
  if of and is_older(all, of, forgotten) then call('HDEL', tables, field, 'first:' .. of, 'booted:' .. of) end
end
local before = all['force:' .. app] or ''
if (all['pin:' .. app] or newest(all, app, live, steady)) ~= hash then return {0, before} end

-- What another program declares stays, unless that has had no worker for long.
local others, declared, names = {}, {}, {}
for field, said in pairs(all) do
  local other = string.match(field, '^of:(.*)$')
  if other and other ~= app and not is_older(all, other .. ' ' .. (all['force:' .. other] or ''), forgotten) then
    for name in string.gmatch(said, '[^\n]+') do others[name] = true end
  end
end
local function note(name)
  names[#names + 1] = name
  declared[name] = true
end
local function set_limit(field, value)
  if (call('HGET', control, field) or '') == value then return end
  if value == '' then call('HDEL', control, field) else call('HSET', control, field, value) end
  -- More may run at once than before.
  local limit = string.match(field, '^%a*:(.*=)$')
  if limit and call('EXISTS', jobs .. ':lists') == 1 then set_timer('!' .. limit, now, 'CH') end
end
local function set_entry(entry, says, due, is_once)
  local set, code, old = unpack(call('HMGET', cron, 'set:' .. entry, 'code:' .. entry, 'next:' .. entry))
  local is_same = says_same(code, says)
  if not is_same then call('HSET', cron, 'code:' .. entry, says) end
  if set then return end
  if is_once == '1' then
    if all['booted:' .. own] then return end
    set_next(entry, string.format('%.0f', now))
  elseif not is_same then
    call('HDEL', cron, 'fired:' .. entry)
    set_next(entry, due)
  elseif due ~= '' and old and (tonumber(old) or math.huge) - tonumber(due) > far then
    set_next(entry, due)
  end
end
for i = 6, 5 + 2 * n, 2 do
  note(ARGV[i])
  set_limit(ARGV[i], ARGV[i + 1])
end
for i = 6 + 2 * n, #ARGV, 4 do
  note('cron:' .. ARGV[i])
  set_entry(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
for name in string.gmatch(all['of:' .. app] or '', '[^\n]+') do
  local entry = string.match(name, '^cron:(.*)$')
  if declared[name] or others[name] then
    -- It goes on.
  elseif entry then
    remove_code(entry)
  else
    set_limit(name, '')
  end
end
call('HSET', tables, 'force:' .. app, hash, 'of:' .. app, table.concat(names, '\n'), 'booted:' .. own, '1')
-- Where somebody removes a key, its mark is gone too.
if n > 0 then call('HSET', control, 'table:' .. app, hash) end
if ARGV[6 + 2 * n] then call('HSET', cron, 'table:' .. app, hash) end
return {1, before}
