-- recount_batch: set the counts of a batch to those of its bits, whatever somebody did to them.
--
-- KEYS[1] batch  HASH    what is true of it, see lib/batch.lua
-- KEYS[2] done   STRING  a bit for each member that has ended
-- KEYS[3] bad    STRING  a bit for each that has not ended well
-- KEYS[4] fails  LIST    the first hundred of these
-- KEYS[5] adds   HASH    what was added
--
-- Returns as `apply_batch`.
local call = redis.call
local batch, done, bad, fails, adds = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local of = call('HMGET', batch, 'state', 'given', 'total')
local state, given, total = of[1], tonumber(of[2]) or 0, tonumber(of[3]) or 0
if not state or state == 'void' then return {'gone'} end
-- include batch
call('HDEL', batch, '')
-- The bits of what was given up are set too.
local ended = call('BITCOUNT', done) - (given - total)
call('HSET', batch, 'ended', math.max(ended, 0), 'bad', call('BITCOUNT', bad))
return tell()
