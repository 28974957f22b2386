-- mind_batch: what is to be done for a batch that nobody else may do any more.
--
-- KEYS[1] batch   HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done    STRING  a bit for each member that has ended
-- KEYS[3] bad     STRING  a bit for each that has not ended well
-- KEYS[4] fails   LIST    the first hundred of these
-- KEYS[5] adds    HASH    what was added
-- ARGV[1] adds_for  ms after which what is being added is given up
-- ARGV[2] open_for  ms after which one that is open and does not grow is cancelled
--
-- Returns {'ok', 'cancelled', 'paused' or '', 1 if all that follows from it is done or 0, the labels of its queues, how many batches are its members,
-- then for each of what is to be given up: its name, its first number, where it went}; {'gone'}.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local adds_for, open_for = tonumber(ARGV[1]), tonumber(ARGV[2])

local of = call('HMGET', batch, 'state', 'stop', 'queues', 'children', 'added', 'parent', 'told')
local state, stop = of[1], of[2] or ''
if not state or state == 'void' then return {'gone'} end
-- include batch
-- include clock
if state == 'open' and now - (tonumber(of[5]) or 0) > open_for then
  call('HDEL', batch, 'stop')
  stop = 'abandoned'
  call('HSET', batch, 'stop', stop, 'state', 'sealed')
  keep(7776000)
end
local is_done = state == 'finished' and (not of[6] or of[7])
local reply = {'ok', is_stopped(stop) and 'cancelled' or stop, is_done and 1 or 0, of[3] or '', tonumber(of[4]) or 0}
for _, field in ipairs(call('HKEYS', batch)) do
  local name = string.match(field, '^add:(.*)$')
  local at, first, says = string.match(name and call('HGET', batch, field) or '', '^(%d+) (%d+) %d+ (.*)$')
  if at and now - tonumber(at) > adds_for and #reply < 65 then
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, first, says
  end
end
return reply
