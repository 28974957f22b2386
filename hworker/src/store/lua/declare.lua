-- declare: say what a program declares in its code. It is in force if none of its programs that live is a newer one.
--
-- KEYS[1] jobs      LIST+   waiting envelopes; behind `:tables` which programs declare what, behind `:control` the limits in force, behind `:cron`
--   what runs again and again
-- KEYS[2] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] app       the name of the program
-- ARGV[2] hash      of all that follows
-- ARGV[3] live      ms; what no worker told of for so long is not of a living one
-- ARGV[4] n         how many limits follow: 'limit:<limit>' how many at once, 'rate:<limit>' '<count> <period in ms> <burst>'; '' for a value where
--   there is none
-- ARGV[5] and for each cron entry: its name; what it says; when it is due next, in ms, or ''; '1' if it is due once for each table
--
-- Returns {1 if it is in force or 0, the hash that was before or ''}.
-- Invariant: what somebody set by hand goes on to hold, and what another program declares. An entry that says the same goes on as it was.
local call = redis.call
local jobs, bell = KEYS[1], KEYS[2]
local app, hash, live, n = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local control, tables = jobs .. ':control', jobs .. ':tables'
-- An entry that is due so much later than it says was fired while the clock was wrong.
local far = 2 * 86400000
-- Tables of so many ms ago are forgotten.
local forgotten = 30 * 86400000

-- include clock
-- include timers
-- include cron
-- Looked at before anything is written: a key that somebody made another type of is an error here, and not half-way.
call('HLEN', control)
call('HLEN', cron)
call('ZCARD', timers)
-- A removal first: a full server lets a script go on once it has written.
call('HDEL', tables, '')
local is_new = call('HSETNX', tables, 'first:' .. app .. ' ' .. hash, string.format('%.0f', now)) == 1
call('HSET', tables, 'seen:' .. app .. ' ' .. hash, string.format('%.0f', now))
local fields, all = call('HGETALL', tables), {}
for i = 1, #fields, 2 do all[fields[i]] = fields[i + 1] end

-- Of those that live, the one that the server knows for the shortest time.
local newest, since = all['pin:' .. app], math.huge
for field, seen in pairs(all) do
  local whose, of = string.match(field, '^seen:(.*) ([^ ]*)$')
  local age = whose and now - (tonumber(seen) or 0)
  if whose and age > forgotten and all['force:' .. whose] ~= of then
    call('HDEL', tables, field, 'first:' .. whose .. ' ' .. of)
  elseif whose == app and age <= live and not all['pin:' .. app] then
    local first = tonumber(all['first:' .. app .. ' ' .. of]) or 0
    if since == math.huge or first > since or first == since and of > newest then newest, since = of, first end
  end
end
local before = all['force:' .. app] or ''
if newest ~= hash then return {0, before} end

-- What another program declares stays.
local others, declared = {}, {}
for field, names in pairs(all) do
  if string.find(field, '^of:') and field ~= 'of:' .. app then
    for name in string.gmatch(names, '[^\n]+') do others[name] = true end
  end
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
  call('HSET', cron, 'code:' .. entry, says)
  if set then return end
  if is_once == '1' then
    if is_new then set_next(entry, string.format('%.0f', now)) end
  elseif code ~= says or due ~= '' and old and tonumber(old) - tonumber(due) > far then
    set_next(entry, due)
  end
end
local names = {}
for i = 5, 4 + 2 * n, 2 do
  names[#names + 1] = ARGV[i]
  declared[ARGV[i]] = true
  set_limit(ARGV[i], ARGV[i + 1])
end
for i = 5 + 2 * n, #ARGV, 4 do
  local name = 'cron:' .. ARGV[i]
  names[#names + 1] = name
  declared[name] = true
  set_entry(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end
for name in string.gmatch(all['of:' .. app] or '', '[^\n]+') do
  local entry = string.match(name, '^cron:(.*)$')
  if declared[name] or others[name] then
    -- It goes on.
  elseif not entry then
    set_limit(name, '')
  else
    call('HDEL', cron, 'code:' .. entry)
    if call('HEXISTS', cron, 'set:' .. entry) == 0 then
      set_next(entry, '')
      call('HDEL', cron, 'fired:' .. entry, 'runs:' .. entry)
    end
  end
end
call('HSET', tables, 'force:' .. app, hash, 'of:' .. app, table.concat(names, '\n'))
return {1, before}
