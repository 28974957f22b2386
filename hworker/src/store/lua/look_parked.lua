-- look_parked: read parked envelopes in the order of their tokens. Changes nothing.
--
-- KEYS[1] parked       ZSET  envelope -> token
-- KEYS[2] jobs         LIST+ behind `:ids` the envelopes of jobs that are known by their ids
-- ARGV[1] after        token
-- ARGV[2] up_to        token, or '+inf'
-- ARGV[3] want         how many at most
-- ARGV[4] bytes        stop at so many bytes
-- ARGV[5] max_payload  in bytes; what is larger is told of without its bytes
--
-- Returns {token, envelope, token, envelope, ...}, an envelope that is too large as ''.
local call = redis.call
local parked, jobs = KEYS[1], KEYS[2]
local after, up_to, want = ARGV[1], ARGV[2], tonumber(ARGV[3])
local bytes, max_payload = tonumber(ARGV[4]), tonumber(ARGV[5])

-- include ids
-- include whole
local reply = {}
while #reply < 2 * want and bytes > 0 do
  local next = call('ZRANGEBYSCORE', parked, '(' .. after, up_to, 'WITHSCORES', 'LIMIT', 0, 1)
  if not next[1] then break end
  after = next[2]
  local envelope = select(2, whole(next[1]))
  reply[#reply + 1] = after
  reply[#reply + 1] = #envelope <= max_payload and envelope or ''
  bytes = bytes - #envelope
end
return reply
