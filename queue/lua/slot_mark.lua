-- slot_mark: say what the holder of a slot does to its engine.
--
-- ARGV[13] slot
-- ARGV[14] fence by which the caller holds it
-- ARGV[15] state: aborting, poisoned or down
-- returns  DONE, or STALE if the caller does not hold it by this fence
local s, state = held(ARGV[own], tonumber(ARGV[own + 1])), tonumber(ARGV[own + 2])
if s then
  if state ~= BUSY then bill(s) end
  -- Poisoned and down are one illness: its age decides over newcomers.
  if s.state ~= state and not (sick(s.state) and sick(state)) then s.since = now end
  s.state, s.changed = state, true
else
  verdict = STALE
end
settle()
return reply()
