-- remember: write what a body reports of its job, while that is held.
--
-- KEYS[1] progress  HASH  lease -> envelope
-- KEYS[2] live      HASH  what the body reports; 'job': when the job was enqueued; 'bytes': how many its log has
-- KEYS[3] log       LIST  the lines, the oldest first
-- ARGV[1] lease
-- ARGV[2] kept        for how many seconds both are kept
-- ARGV[3] most_lines  how many lines there may be
-- ARGV[4] most_bytes  and how many bytes they may have
-- ARGV[5] job         when the job was enqueued: what another job of this id has reported goes
-- ARGV[6] done        '1' where it is done: nothing goes on from its checkpoints
-- ARGV[7] n           how many fields follow
-- ARGV[8] now field, value or '' to remove it; repeated
-- ARGV[9] then the lines
--
-- Returns 'ok', or 'lost' where the lease is held no more.
-- Invariant: an attempt that has lost its job reports nothing more.
local call = redis.call
local live, log = KEYS[2], KEYS[3]
local job = ARGV[5]

if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 'lost' end
local lines = call('LLEN', log)
if call('HGET', live, 'job') ~= job then
  call('DEL', live, log)
  lines = 0
  call('HSET', live, 'job', job)
end
-- First, as a full server lets a script go on once it has written.
call('HDEL', live, '')
local first = 8 + 2 * tonumber(ARGV[7])
for i = 8, first - 2, 2 do
  if ARGV[i + 1] == '' then
    call('HDEL', live, ARGV[i])
  else
    call('HSET', live, ARGV[i], ARGV[i + 1])
  end
end
if ARGV[6] == '1' then
  for _, field in ipairs(call('HKEYS', live)) do
    if field == 'checkpoint' or string.sub(field, 1, 4) == 'each' then call('HDEL', live, field) end
  end
end
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
