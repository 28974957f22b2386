-- heartbeat: say that a worker lives, keep or take the timer, and tell who was not heard of lately.
--
-- KEYS[1] workers    ZSET    worker -> last heartbeat in ms
-- KEYS[2] record     HASH    the worker's record
-- KEYS[3] progress   HASH    lease -> envelope
-- KEYS[4] inbox      LIST    what the server handed to the worker while it waited
-- KEYS[5] timer      STRING  the worker that keeps the queue's timer
-- KEYS[6] scheduled  ZSET    envelope -> due time in ms
-- KEYS[7] jobs       LIST+   waiting envelopes; with `:<list>` behind it those of a list beside it
-- KEYS[8] parked     ZSET    envelope -> token: jobs that some worker could not run
-- KEYS[9] token      STRING  the last token of the queue
-- KEYS[10] bell      LIST    at most one token; wakes the process that keeps the timer
-- ARGV[1] worker     its id
-- ARGV[2] timer_ttl  ms that the timer is kept without a heartbeat
-- ARGV[3] window     ms; workers heard of longer ago are left out
-- ARGV[4] everyone   '1': the process that keeps the timer is told of those too
-- ARGV[5] looked     token of the parked job that this worker looked at last
-- ARGV[6] unknown_for  ms after which a parked job is to be broken
-- ARGV[7] stopping   '1': the worker was told to stop, so its end casts no suspicion on what it holds
-- ARGV[8] app        the name of its program
-- ARGV[9] hash       of what its program declares, see declare.lua; '' for nothing
-- ARGV[10] live      ms; a table of which no worker told for so long has none
-- ARGV[11] steady    ms for which this worker has reached the server
-- ARGV[12] limits    '1': its table has limits
-- ARGV[13] entries   '1': it has cron entries
-- ARGV[14] blocked   ms for which the runtime of its bodies has not run, if that is long, or 0
-- ARGV[15] stopped   how often the batches had changed of which no member starts, as it knows them
--
-- Returns {'ok', time in ms, leases held, length of the inbox, jobs waiting or 0 while the queue gives none, 1 if it keeps the timer or 0,
-- ms until the next scheduled job is due, or a limit opens, or -1, parked jobs that it has not looked at, parked jobs to be broken, its
-- orders 'quiet', 'slots' and 'stop' or '' each, the leases that are to be cancelled, each on a line, 1 if it is to
-- declare what its program says or 0, the ids of the jobs for each worker that this one is to take, each on a line, how many notes of batches
-- wait if it keeps the timer or 0, how often the batches changed of which no member starts, these if it does not know them, each on a line with
-- why, the batches to be looked at if it keeps the timer, each on a line, worker, last heartbeat, worker, last heartbeat, ...} with every worker
-- that was last heard of more than 2 s ago or in the future, 1000 of each at most; {'void'} when the worker was declared dead or is not known.
local call = redis.call
local workers, record, progress, inbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local timer, scheduled, jobs, parked, token_key = KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local worker, timer_ttl, window, everyone = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1'
local looked, unknown_for, app, hash, live = ARGV[5], tonumber(ARGV[6]), ARGV[8], ARGV[9], tonumber(ARGV[10])
local bell = KEYS[10]

local known = call('HMGET', record, 'session', 'dead', 'quiet', 'slots', 'stop', 'cancel', 'blocked')
if not known[1] or known[2] then return {'void'} end

call('HDEL', progress, '')

-- include clock
call('ZADD', workers, now, worker)
if ARGV[7] == '1' then call('HSET', record, 'stopping', now) end
local blocked = tonumber(ARGV[14])
if blocked > 0 then
  call('HSET', record, 'blocked', string.format('%.0f', now - blocked))
elseif known[7] then
  call('HDEL', record, 'blocked')
end

local keeper = call('GET', timer)
local keeps = 0
if not keeper or keeper == worker then
  call('SET', timer, worker, 'PX', timer_ttl)
  keeps = 1
end

-- What is to be cancelled, as far as the worker holds it still.
local to_cancel = ''
if known[6] then
  for lease in string.gmatch(known[6], '[^\n]+') do
    if call('HEXISTS', progress, lease) == 1 then to_cancel = to_cancel .. lease .. '\n' end
  end
  if to_cancel == '' then
    call('HDEL', record, 'cancel')
  else
    call('HSET', record, 'cancel', string.sub(to_cancel, 1, -2))
  end
end

-- What the plain list does not show. Whoever waits for it is told again, should a ticket or the mark be lost.
-- include lists
-- include limits
local filled = redis.pcall('ZCARD', lists)
if keeps == 1 and filled == 0 then
  -- Somebody may have removed what said that they have jobs.
  for name, level in pairs(levels) do
    local length = redis.pcall('LLEN', jobs .. ':' .. name)
    if type(length) == 'number' and length > 0 then filled = filled + call('ZADD', lists, level * 1e15, name) end
  end
end
local is_filled = type(filled) == 'number' and filled > 0
local of_queue = redis.pcall('HMGET', control, 'paused', 'set:*', 'set_rate:*')
local has_limit = of_queue[2] or of_queue[3]
local is_closed = is_paused(of_queue[1]) or has_limit and room_of('*').n == 0
if is_filled or is_closed or has_limit then
  -- include mark
end
if is_filled and keeps == 1 then
  -- Keys that are shut for a reason that is gone, some of them at a time.
  for _, group in ipairs(redis.pcall('ZRANGE', lists, 0, 199)) do
    local of, keys = read(group), jobs .. ':keys:' .. group
    local some = of and of.key and redis.pcall('ZRANDMEMBER', keys, 20) or {}
    for _, key in ipairs(some) do
      if tonumber(call('ZSCORE', keys, key)) >= shut and room_of(of.by_key .. key).n > 0 then open(of.by_key .. key) end
    end
  end
end
if is_filled and not is_closed then leave_ticket() end
if has_limit and not is_closed then open_gate() end

-- A worker lives whatever somebody made of that key.
local function parked_between(from, to)
  local count = redis.pcall('ZCOUNT', parked, from, to)
  return type(count) == 'number' and count or 0
end

-- Whether what its program declares is to be in force, and is not. A worker tells that its table has one.
-- include tables
local function is_to_declare()
  local own = app .. ' ' .. hash
  local of = redis.pcall('HMGET', tables, 'force:' .. app, 'pin:' .. app, 'seen:' .. own, 'first:' .. own)
  if of.err then return false end
  local force, pin, seen, first = of[1], of[2], tonumber(of[3]), of[4]
  if not force then return hash ~= '' end
  if seen and math.abs(now - seen) > 3000 then call('HSET', tables, 'seen:' .. own, string.format('%.0f', now)) end
  if not seen or not first then return true end
  if force ~= hash then
    if pin then return pin == hash end
    local all = known_tables()
    return newest(all, app, live, tonumber(ARGV[11])) == hash
  end
  -- Somebody may have removed a key.
  local is_there = (ARGV[12] ~= '1' or redis.pcall('HGET', control, 'table:' .. app) == hash)
    and (ARGV[13] ~= '1' or redis.pcall('HGET', jobs .. ':cron', 'table:' .. app) == hash)
  return not is_there
end

-- Cron entries whose timer is gone, some of them at a time.
if keeps == 1 then
  -- include cron
  local some = redis.pcall('HRANDFIELD', cron, 20)
  for _, field in ipairs(some) do
    local entry = string.match(field, '^next:(.*)$')
    local due = entry and call('HGET', cron, field)
    if tonumber(due) and redis.pcall('ZSCORE', timers, '@' .. entry) == false and call('HEXISTS', cron, 'paused:' .. entry) == 0 then
      set_next(entry, due)
    end
  end
end

-- include broadcast
-- include open_broadcasts
local next_due = redis.pcall('ZRANGE', scheduled, 0, 0, 'WITHSCORES')[2]
local opens = redis.pcall('ZRANGE', timers, 0, 0, 'WITHSCORES')[2]
next_due = math.min(tonumber(next_due) or math.huge, tonumber(opens) or math.huge)
local wait = next_due < math.huge and math.max(0, math.ceil(next_due - now)) or -1
local notes = keeps == 1 and redis.pcall('HLEN', jobs .. ':notes')

-- Batches of which no member starts, see stop_batch.lua, and those that somebody has to look after.
local changes, stops, to_mind = redis.pcall('HGET', jobs .. ':stopped', 'v'), {}, {}
changes = type(changes) == 'string' and changes or '0'
if changes ~= ARGV[15] then
  local fields = redis.pcall('HGETALL', jobs .. ':stopped')
  for i = 1, #fields, 2 do
    local group, stop = fields[i], fields[i + 1]
    if group ~= 'v' then stops[#stops + 1] = group .. ' ' .. stop end
  end
end
if keeps == 1 then
  to_mind = redis.pcall('ZRANGEBYSCORE', jobs .. ':batches', '-inf', now, 'LIMIT', 0, 20)
  for _, group in ipairs(to_mind) do call('ZADD', jobs .. ':batches', string.format('%.0f', now + 10000), group) end
end

local reply = {
  'ok', now, call('HLEN', progress), call('LLEN', inbox), is_closed and 0 or call('LLEN', jobs), keeps, wait,
  -- Nobody takes any while it is closed.
  is_closed and 0 or parked_between('(' .. looked, '+inf'),
  -- A token is a time in us.
  parked_between('-inf', string.format('%.0f', (now - unknown_for) * 1000)),
  known[3] or '', known[4] or '', known[5] or '', to_cancel, is_to_declare() and 1 or 0,
  table.concat(open_broadcasts(), '\n'),
  type(notes) == 'number' and notes or 0, changes, table.concat(stops, '\n'), table.concat(to_mind, '\n'),
}

local function add(from, to)
  local heard = call('ZRANGEBYSCORE', workers, from, to, 'WITHSCORES', 'LIMIT', 0, 1000)
  for _, value in ipairs(heard) do reply[#reply + 1] = value end
end
-- Whoever died today is in there: one worker looks after them, or the cost would grow with the square of the fleet.
add(everyone and keeps == 1 and '-inf' or now - window, now - 2000)
add('(' .. now, '+inf')
return reply
