-- create_batch: begin a batch, to which members are added until it is sealed.
--
-- KEYS[1] batch   HASH  what is true of it, see lib/batch.lua
-- ARGV[1] name    what it is called; '' for one that is never to begin, as whoever began it is gone
-- ARGV[2] parent  the batch that it is a member of, a blank, and its number there; or ''
-- ARGV[3] depth   how many are above it
-- ARGV[4] lasts   for how many ms it is kept at most, or ''
-- ARGV[5] tags    JSON, or ''
-- ARGV[6] meta    JSON, or ''
-- ARGV[7] now callback, queue, list, how many of its key run at once or '', envelope; repeated
--
-- Returns 'ok', 'exists', or 'void' where it is never to begin.
local call = redis.call
local batch = KEYS[1]

local state = call('HGET', batch, 'state')
if state then return state == 'void' and state or 'exists' end
-- include clock
if ARGV[1] == '' then
  -- Until nobody can be about to begin it.
  call('HSET', batch, 'state', 'void')
  call('EXPIRE', batch, 604800)
  return 'ok'
end
now = string.format('%.0f', now)
call('HSET', batch, 'state', 'open', 'name', ARGV[1], 'at', now, 'added', now, 'depth', ARGV[3])
for i, field in ipairs({'parent', 'tags', 'meta'}) do
  local value = ARGV[({2, 5, 6})[i]]
  if value ~= '' then call('HSET', batch, field, value) end
end
for i = 7, #ARGV, 5 do
  local name = ARGV[i]
  call('HSET', batch, name, 'waits', 'queue:' .. name, ARGV[i + 1], 'list:' .. name, ARGV[i + 2], 'at_once:' .. name, ARGV[i + 3],
    'job:' .. name, ARGV[i + 4])
end
local lasts = 7776000000
if ARGV[4] ~= '' then
  lasts = tonumber(ARGV[4])
  call('HSET', batch, 'expires', string.format('%.0f', now + lasts))
end
call('PEXPIRE', batch, string.format('%.0f', lasts))
return 'ok'
