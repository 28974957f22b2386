-- bury: forget a worker that has been dead for long and holds nothing.
--
-- KEYS[1] workers   ZSET  worker -> last heartbeat in ms
-- KEYS[2] record    HASH  the dead worker's record
-- KEYS[3] progress  HASH  its leases -> envelopes
-- KEYS[4] inbox     LIST  what the server handed to it while it waited
-- ARGV[1] worker  its id
-- ARGV[2] after   seconds that a dead worker is remembered
--
-- Returns 'ok', or 'kept' when it died later than that, lives, or still holds something.
local call = redis.call
local workers, record, progress, inbox = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local worker, after = ARGV[1], tonumber(ARGV[2])

local dead = call('HGET', record, 'dead')
if not dead or call('TIME')[1] - (tonumber(dead) or 0) < after then return 'kept' end
if call('HLEN', progress) > 0 or call('LLEN', inbox) > 0 then return 'kept' end
call('ZREM', workers, worker)
call('DEL', record)
return 'ok'
