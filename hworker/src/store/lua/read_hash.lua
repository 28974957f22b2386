-- read_hash: read fields of a hash with their values, in no order. Changes nothing.
--
-- KEYS[1] hash    HASH  field -> value
-- ARGV[1] cursor  of HSCAN
-- ARGV[2] skip    how many at this cursor are left out
-- ARGV[3] want    how many at most, about (1..1000)
-- ARGV[4] bytes   stop at so many bytes
--
-- Returns {cursor, skip, {cursor, field, value, cursor, field, value, ...}}: where it goes on, at '0' behind the last, and the cursor
-- of each field. A cursor has one field, or the few that are in its bucket.
local call = redis.call
local hash = KEYS[1]
local cursor, skip, want, bytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local rows = {}
-- A hash that was larger has empty buckets.
for _ = 1, want do
  local next, part = unpack(call('HSCAN', hash, cursor, 'COUNT', 1))
  for i = 2 * skip + 1, #part, 2 do
    if bytes <= 0 then return {cursor, (i - 1) / 2, rows} end
    rows[#rows + 1] = cursor
    rows[#rows + 1] = part[i]
    rows[#rows + 1] = part[i + 1]
    bytes = bytes - #part[i] - #part[i + 1]
  end
  cursor, skip = next, 0
  if cursor == '0' or bytes <= 0 or #rows >= 3 * want then break end
end
return {cursor, 0, rows}
