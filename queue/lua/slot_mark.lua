-- slot_mark: say what the holder of a slot does to its engine.
--
-- ARGV[13] slot
-- ARGV[14] fence by which the caller holds it
-- ARGV[15] state: aborting, poisoned or down
-- returns  DONE, or STALE if the caller does not hold it by this fence
local s, state = line.held(ARGV[own], tonumber(ARGV[own + 1])), tonumber(ARGV[own + 2])
if s then
  if state ~= BUSY then line.bill(s) end
  -- Poisoned and down are one illness: its age decides over newcomers.
  if s.state ~= state and not (line.sick(s.state) and line.sick(state)) then s.since = now end
  s.state = state
else
  verdict = STALE
end
line.settle()
return line.reply()
