-- ordered: where a job goes that comes back from its worker: one that somebody cancelled goes to where the next worker ends it.
-- Needs lib/lists, and ordered: the leases that the record of the worker says are to be cancelled, or nil. Makes is_ordered and goes_to.
local function is_ordered(lease)
  return ordered and string.find('\n' .. ordered .. '\n', '\n' .. lease .. '\n', 1, true)
end

local function goes_to(lease)
  local name = list_of(lease)
  if not is_ordered(lease) then return name end
  local of = read(name)
  return of and of.id and 'highest*+!cancelled#' .. of.id or 'highest+!cancelled'
end
