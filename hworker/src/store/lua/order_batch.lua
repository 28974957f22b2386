-- order_batch: seal, cancel, pause or resume a batch, or take one out that has nothing yet.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- KEYS[5] adds   HASH    what was added
-- ARGV[1] order  'seal', 'cancel', 'pause', 'resume' or 'drop'
--
-- Returns {'changed' or 'unchanged', its state: 'open', 'sealed', 'paused', 'cancelled', 'abandoned' or 'finished', the labels of its queues}; {'gone'}.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local order = ARGV[1]

local of = call('HMGET', batch, 'state', 'stop', 'queues')
local state, stop, queues = of[1], of[2] or '', of[3] or ''
if not state or state == 'void' then return {'gone'} end
-- include batch
local stands = state == 'finished' and state or stop ~= '' and stop or state
local is_possible = state ~= 'finished' and not is_stopped(stop)
local is_so = {seal = state ~= 'open', pause = stop == 'paused', resume = stop ~= 'paused'}
if order ~= 'drop' and (not is_possible or is_so[order]) then return {'unchanged', stands, queues} end
call('HDEL', batch, order == 'resume' and 'stop' or '')
if order == 'drop' then
  keep(0)
  return {'changed', stands, queues}
elseif order == 'seal' then
  call('HSET', batch, 'state', 'sealed')
elseif order == 'cancel' then
  -- Nothing is added any more.
  call('HSET', batch, 'stop', 'cancelled', 'state', 'sealed')
elseif order == 'pause' then
  call('HSET', batch, 'stop', 'paused')
end
keep(7776000)
return {'changed', stands, queues}
