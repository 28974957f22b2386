-- apply_batch: tell a batch what became of its members and callbacks, as often as it is repeated.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these: their numbers, how they ended and their ids
-- KEYS[5] adds   HASH    what was added
-- ARGV[1] now its number, 'good' or 'bad', how it ended, its id; of a callback 'c' and its place instead; 'seal', 'good', '-', '-' where no more are
--   added; repeated
--
-- Returns {'ok', callback, queue, list, at_once, envelope, ...} for each callback that is to be pushed, and for what its parent is to be told, see
-- lib/batch.lua; {'gone'} where there is no such batch.
-- Invariant: a member is counted once, and a callback becomes due once.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local of = call('HMGET', batch, 'state', 'given', 'stop')
local state, given = of[1], tonumber(of[2]) or 0
if not state or state == 'void' then return {'gone'} end

-- include batch
-- First, as a full server lets a script go on once it has written.
call('HDEL', batch, '')
local ended, badly, cancelled = 0, 0, 0
for i = 1, #ARGV, 4 do
  local which, is_good, how, id = ARGV[i], ARGV[i + 1] == 'good', ARGV[i + 2], ARGV[i + 3]
  local number = tonumber(which)
  if not number then
    local place = tonumber(string.match(which, '^c(%d)$'))
    local name = place and callbacks[place + 1]
    if name and call('HGET', batch, name) then
      call('HSET', batch, name, 'ended')
      if is_good then call('HDEL', batch, 'failed:' .. name) else call('HSET', batch, 'failed:' .. name, how) end
    elseif which == 'seal' and state == 'open' then
      state = 'sealed'
      call('HSET', batch, 'state', state)
    end
  elseif number < given then
    if call('SETBIT', done, number, 1) == 0 then
      ended = ended + 1
      if is_stopped(of[3]) and how == 'cancelled' then
        -- It was not to run any more, which is no failure.
        cancelled = cancelled + 1
      elseif not is_good then
        call('SETBIT', bad, number, 1)
        badly = badly + 1
        if call('LLEN', fails) < 100 then call('RPUSH', fails, which .. ' ' .. how .. ' ' .. id) end
      end
    elseif is_good and call('GETBIT', bad, number) == 1 then
      -- It failed, and somebody had it run again.
      call('SETBIT', bad, number, 0)
      badly = badly - 1
    end
  end
end
if ended > 0 then call('HINCRBY', batch, 'ended', ended) end
if badly ~= 0 then call('HINCRBY', batch, 'bad', badly) end
if cancelled > 0 then call('HINCRBY', batch, 'cancelled', cancelled) end
return tell()
