-- remember: write what a body reports of its job, while that is held.
--
-- KEYS[1] progress  HASH  lease -> envelope
-- KEYS[2] live      HASH  what the body reports, and 'bytes': how many its log has
-- KEYS[3] log       LIST  the lines, the oldest first
-- ARGV[1] lease
-- ARGV[2] kept        for how many seconds both are kept
-- ARGV[3] most_lines  how many lines there may be
-- ARGV[4] most_bytes  and how many bytes they may have
-- ARGV[5] n           how many fields follow
-- ARGV[6] now field, value; repeated
-- ARGV[7] then the lines
--
-- Returns 'ok', or 'lost' where the lease is held no more.
-- Invariant: an attempt that has lost its job reports nothing more.
local call = redis.call
local live, log = KEYS[2], KEYS[3]

if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 'lost' end
local lines = call('LLEN', log)
-- First, as a full server lets a script go on once it has written.
call('HDEL', live, '')
local first = 6 + 2 * tonumber(ARGV[5])
for i = 6, first - 2, 2 do call('HSET', live, ARGV[i], ARGV[i + 1]) end
if ARGV[first] then
  local bytes = tonumber(call('HGET', live, 'bytes')) or 0
  for i = first, #ARGV do
    bytes, lines = bytes + #ARGV[i], lines + 1
    call('RPUSH', log, ARGV[i])
  end
  while lines > tonumber(ARGV[3]) or bytes > tonumber(ARGV[4]) do
    local oldest = call('LPOP', log)
    bytes, lines = oldest and bytes - #oldest or 0, oldest and lines - 1 or 0
  end
  call('HSET', live, 'bytes', string.format('%.0f', bytes))
end
call('EXPIRE', live, ARGV[2])
call('EXPIRE', log, ARGV[2])
return 'ok'
