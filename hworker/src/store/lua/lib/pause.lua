-- pause: whether a pause is in force: one without an end is kept as 0.
-- Needs now. Makes is_paused.
local function is_paused(until_ms)
  local at = tonumber(until_ms)
  return at and (at == 0 or at > now)
end
