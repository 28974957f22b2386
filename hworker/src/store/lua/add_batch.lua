-- add_batch: give numbers to jobs that are about to be enqueued as members of a batch, or to a batch that is to be one.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- KEYS[5] adds   HASH    what was added: its name -> its first number, how many, and which of these were given up; of a batch its id
-- ARGV[1] by     the number of the member that adds them, 'c' where one of its callbacks does, or '' from outside
-- ARGV[2] name   of what is added, and which part of it; of a batch it begins with 'batch:'
-- ARGV[3] count  how many
-- ARGV[4] says   where they go, kept as it is until they are in; of a batch its id
-- ARGV[5] now the labels of their queues
--
-- Returns {'ok', the first number, how many, 'adding' and where they go, or 'added' and which were given up (of a batch its id), the stop in force
-- or '', how many batches are above}: what was added before under this name is as it was; {'refused', why}; {'gone'}.
-- Invariant: a number is given once, and a batch is not over while what has one is not in.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local by, name, count = ARGV[1], ARGV[2], tonumber(ARGV[3])

local of = call('HMGET', batch, 'state', 'stop', 'given', 'add:' .. name, 'depth', 'queues')
local state, stop, given, depth = of[1], of[2] or '', tonumber(of[3]) or 0, tonumber(of[5]) or 0
if not state or state == 'void' then return {'gone'} end

-- include batch
if of[4] then
  local first, n, says = string.match(of[4], '^%d+ (%d+) (%d+) (.*)$')
  return {'ok', tonumber(first), tonumber(n), 'adding', says, stop, depth}
end
local added = call('HGET', adds, name)
if added then
  local first, n, given_up = string.match(added, '^(%d+) (%d+) ?(.*)$')
  return {'ok', tonumber(first), tonumber(n), 'added', given_up, stop, depth}
end
if state == 'finished' then return {'refused', 'finished'} end
if is_stopped(stop) then return {'refused', 'cancelled'} end
if by == 'c' then return {'refused', 'callback'} end
if by == '' and state ~= 'open' then return {'refused', 'sealed'} end
-- Whoever has ended holds the batch open no more.
if by ~= '' and (tonumber(by) >= given or call('GETBIT', done, by) == 1) then return {'refused', 'ended'} end
if given + count > 10000000 then return {'refused', 'large'} end
local is_batch = string.sub(name, 1, 6) == 'batch:'
if is_batch and depth >= 16 then return {'refused', 'deep'} end

-- First, as a full server lets a script go on once it has written.
call('HDEL', batch, '')
-- include clock
local queues = of[6] or ''
local known = ' ' .. queues
for i = 5, #ARGV do
  local label = ARGV[i]
  if not string.find(known, ' ' .. label .. ' ', 1, true) then known = known .. label .. ' ' end
end
now = string.format('%.0f', now)
call('HSET', batch, 'add:' .. name, now .. ' ' .. given .. ' ' .. count .. ' ' .. ARGV[4], 'added', now, 'given', given + count,
  'queues', string.sub(known, 2))
call('HINCRBY', batch, 'total', count)
if is_batch then call('HINCRBY', batch, 'children', 1) end
keep(7776000)
return {'ok', given, count, 'adding', ARGV[4], stop, depth}
