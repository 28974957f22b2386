-- full: whether more jobs would wait in a list with a key than may.
-- Needs call, jobs, lib/lists. Makes alike and full.
local more, most_set = {}, {}

-- How many may wait in a list with a key, where somebody set it for the key or for all of them.
local function set_max(list)
  local of = read(list)
  if not (of and of.key) then return false end
  local of_key = redis.pcall('HMGET', jobs .. ':overrides', 'max:' .. of.limits[#of.limits])
  local of_all = redis.pcall('HMGET', jobs .. ':control', 'max:' .. of.by_key)
  return tonumber(of_key[1] or of_all[1] or nil) or false
end

-- The lists of all priorities with these limits.
local function alike(list)
  local limits, all = string.match(list, '^%l*%*?([^#]*)'), {}
  for i, level in ipairs({'', 'highest', 'high', 'low', 'lowest'}) do
    all[2 * i - 1], all[2 * i] = level .. limits, level .. '*' .. limits
  end
  return all
end

-- How many wait and how many may, where there is no room; else this one is counted too.
local function full(list, terms)
  if most_set[list] == nil then most_set[list] = set_max(list) end
  local most = most_set[list] or tonumber(string.match(terms, '^%S+ (%S+)'))
  if not most then return end
  local any = alike(list)
  local waits = more[any[1]] or 0
  for _, same in ipairs(any) do waits = waits + call('LLEN', jobs .. ':' .. same) end
  if waits >= most then return waits, most end
  more[any[1]] = (more[any[1]] or 0) + 1
end
