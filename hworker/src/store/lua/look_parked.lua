-- look_parked: read parked envelopes in the order of their tokens. Changes nothing.
--
-- KEYS[1] parked       ZSET  envelope -> token
-- ARGV[1] after        token
-- ARGV[2] up_to        token, or '+inf'
-- ARGV[3] want         how many at most
-- ARGV[4] bytes        stop at so many bytes
-- ARGV[5] max_payload  in bytes; what is larger is told of without its bytes
--
-- Returns {token, envelope, token, envelope, ...}, an envelope that is too large as ''.
local call = redis.call
local parked = KEYS[1]
local after, up_to, want = ARGV[1], ARGV[2], tonumber(ARGV[3])
local bytes, max_payload = tonumber(ARGV[4]), tonumber(ARGV[5])

local reply = {}
while #reply < 2 * want and bytes > 0 do
  local next = call('ZRANGEBYSCORE', parked, '(' .. after, up_to, 'WITHSCORES', 'LIMIT', 0, 1)
  if not next[1] then break end
  after = next[2]
  reply[#reply + 1] = after
  reply[#reply + 1] = #next[1] <= max_payload and next[1] or ''
  bytes = bytes - #next[1]
end
return reply
