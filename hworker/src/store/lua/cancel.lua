-- cancel: tell a worker to end a job that it runs.
--
-- KEYS[1] progress  HASH  the worker's leases -> envelopes
-- KEYS[2] record    HASH  the worker's record
-- ARGV[1] lease
--
-- Returns 'ok', or 'missing' where the worker does not hold it.
-- Invariant: the order stands in the record until the lease is gone, so that neither a lost connection nor the death of the worker loses it.
local call = redis.call
local progress, record = KEYS[1], KEYS[2]
local lease = ARGV[1]

if call('HEXISTS', progress, lease) == 0 then return 'missing' end
local ordered = call('HGET', record, 'cancel') or ''
if not string.find('\n' .. ordered .. '\n', '\n' .. lease .. '\n', 1, true) then
  call('HSET', record, 'cancel', ordered == '' and lease or ordered .. '\n' .. lease)
end
return 'ok'
