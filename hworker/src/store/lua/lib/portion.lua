-- portion: the rows of a reply, and how many elements to read for it at once inside the server.
-- Needs want, at_once and bytes. Makes rows, n, is_full, add, and next_step.
local rows, n, left, step = {}, 0, bytes, math.floor(at_once / 64)

-- The row that makes it so large is its last.
local function is_full() return n >= want or left <= 0 end

local function add(value, another)
  rows[#rows + 1] = value
  rows[#rows + 1] = another
  n, left = n + 1, left - #value - (another and #another or 0)
end

-- How large an element is shows only when Lua has copied it, a MB in 2 ms. So large ones behind small ones are met in small steps: four times
-- the last one at most, or what fills the reply with elements as large as those so far, and never more than `at_once`.
local function next_step()
  local mean = (bytes - left + 1) / (n + 1)
  step = math.max(1, math.min(4 * step, at_once, want - n, math.floor(left / mean)))
  return step
end
