-- mend_records: give records their places back, and drop places that have no record.
--
-- KEYS[1] records    HASH  id -> record of an ended job
-- KEYS[2] groups     HASH  group -> how many, when and what; bytes of records by outcome
-- KEYS[3] failed     ZSET  '<group> <job> <id>' -> end in ms
-- KEYS[4] cancelled  ZSET  the same
-- KEYS[5] expired    ZSET  the same
-- KEYS[6] done       ZSET  the same
-- ARGV[1] then outcome, member, id, its end in ms or '' to drop its place; repeated
--
-- Returns how many were mended.
-- Invariant: only a place without a record is dropped, and only a record without this place gets one.
local call = redis.call
local records, groups = KEYS[1], KEYS[2]
local ended, outcomes = {KEYS[3], KEYS[4], KEYS[5], KEYS[6]}, {failed = 1, cancelled = 2, expired = 3, done = 4}

-- include clock
-- include records

local mended = 0
for i = 1, #ARGV, 4 do
  local outcome, member, id, at = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  local set, size = ended[outcomes[outcome]], call('HSTRLEN', records, id)
  if at == '' and size == 0 then
    if call('ZREM', set, member) == 1 then
      drop_record(outcome, member)
      mended = mended + 1
    end
  elseif at ~= '' and size > 0 then
    -- Its bytes and its group count it still: they let it go when the record goes.
    mended = mended + call('ZADD', set, 'NX', at, member)
  end
end
write_groups()
return mended
