-- whole: what a member of the scheduled or parked jobs stands for.
-- Needs call, lib/ids. Makes whole.
-- The list and id of one that is known by its id, else nil, and the envelope.
local function whole(member)
  local name = string.match(member, '^:([^\n#]*#[^\n]*)\n$')
  if not name then return nil, member end
  return name, select(4, standing(string.match(name, '#(.*)$'))) or ''
end
