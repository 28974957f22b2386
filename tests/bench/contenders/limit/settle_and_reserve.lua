-- settle_and_reserve: end the last batch and take the next, under the same leases.
--
-- KEYS[1] progress  HASH  lease -> envelope
-- KEYS[2] jobs      LIST  envelopes, oldest at the right
-- ARGV    a lease for each job that is wanted
--
-- Returns the envelopes, at most as many as leases.
redis.call('HDEL', KEYS[1], unpack(ARGV))
local taken = redis.call('RPOP', KEYS[2], #ARGV)
if not taken then return {} end
local held = {}
for i, envelope in ipairs(taken) do
  held[2 * i - 1] = ARGV[i]
  held[2 * i] = envelope
end
redis.call('HSET', KEYS[1], unpack(held))
return taken
