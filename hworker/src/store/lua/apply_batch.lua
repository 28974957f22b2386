-- apply_batch: tell a batch what became of its members and callbacks, as often as it is repeated.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these: their numbers, how they ended and their ids
-- ARGV[1] now its number, 'good' or 'bad', how it ended, its id; of a callback 'c' and its place instead; 'seal', 'good' and how many members
--   there are, where that is known now; repeated
--
-- Returns {'ok', callback, queue, list, at_once, envelope, ...} for each callback that is to be pushed; {'gone'} where there is no such batch.
-- Invariant: a member is counted once, and a callback becomes due once.
local call = redis.call
local batch, done, bad, fails = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local of = call('HMGET', batch, 'state', 'total')
local state, total = of[1], tonumber(of[2])
if not state then return {'gone'} end

-- include batch
-- First, as a full server lets a script go on once it has written.
call('HDEL', batch, '')
local ended, badly = 0, 0
for i = 1, #ARGV, 4 do
  local which, is_good, how, id = ARGV[i], ARGV[i + 1] == 'good', ARGV[i + 2], ARGV[i + 3]
  local number, place = tonumber(which), tonumber(string.match(which, '^c(%d)$'))
  if which == 'seal' then
    if state == 'open' then
      state, total = 'sealed', tonumber(how)
      call('HSET', batch, 'state', state, 'total', how)
    end
  elseif place then
    local name = callbacks[place + 1]
    if name and call('HGET', batch, name) then call('HSET', batch, name, 'ended') end
    if name and not is_good then call('HSET', batch, 'failed:' .. name, how) end
  elseif number and number < 10000000 and not (state ~= 'open' and number >= total) then
    if call('SETBIT', done, number, 1) == 0 then
      ended = ended + 1
      if not is_good then
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
return tell()
