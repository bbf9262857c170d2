-- owner_renew: renew the caller's lease and compare its holds with the books.
--
-- ARGV[13] and what follows: slot, fence, state, id of each hold the caller believes in
-- returns  known: 1 if the lease had not run out; mine: its tickets in line;
--          holds: all it has; lost: those of the given it has no more; asks: also those of
--          before that wait for an answer; more: in how long the first lease of another ends
known = owners[me] and 1 or 0
line.owner().till = now + lease
for i = own, #ARGV, 4 do
  local h = {slot = ARGV[i], fence = tonumber(ARGV[i + 1]), state = tonumber(ARGV[i + 2]), owner = me, id = ARGV[i + 3]}
  if not line.held(h.slot, h.fence) then
    local s = line.slot(h.slot)
    if s and s.state == IDLE and h.fence > s.fence then
      -- Books without the latest pages: the number is later than any they know. Whose
      -- job it is nobody knows any more.
      if h.state == BUSY then
        local a = line.enter(line.group_of(NOBODY), NOBODY, now)
        if a.apart then line.get(line.of_users(a), '') end
      end
      s.fence, s.state, s.owner, s.id, s.clean, s.since = h.fence, h.state, me, h.id, 0, now
      books.fence = math.max(books.fence, h.fence)
    else
      line.add(lost, h)
    end
  end
end
line.settle()
mine = owners[me].tickets
for _, o in ipairs(owners) do
  if o.name ~= me then more[1] = math.min(more[1] or o.till - now, o.till - now) end
end
for _, s in ipairs(slots) do
  if s.state ~= IDLE and s.owner == me then
    line.add(holds, s)
    if s.state == BUSY and s.asked == ASKED and not s.told then line.add(asks, s) end
  end
end
return line.reply()
