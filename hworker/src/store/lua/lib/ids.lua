-- ids: jobs that are known by their ids: unique ones, and those whose id the caller gave.
-- Needs call, jobs. Makes ids, unique and standing.
--
-- `ids` has by its id how a job stands, its list, a line feed, what its key holds it by and its key, a line feed, and its envelope. It is 'w'aiting,
-- 's'cheduled, 'p'arked, 'f'ollowing another of its key, or 'r'unning: then instead of the envelope '<progress> <lease>'. Or it is `>` and
-- the id of one that has taken its place in the list. A job that is not there is no more, whatever list has its id. `unique` has by a key
-- '<id>#<place>#<until>#<latest>#<follower>': who holds it, under which id that one stands in its list where it is another, until when in ms
-- it is held where that does not depend on the job, when a job that is put off again and again is due at the latest, and who follows. It is
-- held by a job that is in `ids` or until its time; anything else there counts as nothing.
local ids, unique = jobs .. ':ids', jobs .. ':unique'

-- How it stands, its list, what its key holds it by and its key, and the envelope.
local function standing(id)
  return string.match(call('HGET', ids, id) or '', '^(%l)([^\n]*)\n([^\n]*)\n(.*)$')
end
