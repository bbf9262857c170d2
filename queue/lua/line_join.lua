-- line_join: take a place, or learn why there is none. Joining twice is joining once.
--
-- ARGV[13] id
-- ARGV[14] class
-- ARGV[15] key, may be empty
-- ARGV[16] how many of the key may wait; 0: as many as of any other
-- ARGV[17] the slot time it may take; 0: the typical one
-- ARGV[18] user of the key, empty if users are not told apart
-- ARGV[19] arrival of a job whose place it takes, whatever the limits; 0: of none
-- ARGV[20] that job, which leaves
-- ARGV[21] the slots it is given rather than others, a number with a bit for each
-- returns  DONE with arrival and, unless in a crowd, place, DUPLICATE, CLOSED, ALL_POISONED, ALL_DOWN, FULL or KEY_LIMIT
local id, class, key = ARGV[own], ARGV[own + 1], ARGV[own + 2]
local ticket = {id = id, class = class, key = key, cost = tonumber(ARGV[own + 4]), user = ARGV[own + 5], prefer = tonumber(ARGV[own + 8]), purse = class .. ' ' .. key}
local place_of = tonumber(ARGV[own + 6])
local queue, index -- where a ticket in line stands, and how many before it
local limit = ARGV[own + 3] == '0' and ARGV[5] or ARGV[own + 3]

-- present answers a join whose job is there already.
local function present()
  local t = books.waiting > 0 and line.lookup(id)
  local s = not t and line.running(id)
  if t then ticket, queue = t, line.leaf(t) end
  if t and t.owner == me then
    arrival = t.arrival
  elseif s and s.owner == me then
    line.add(grants, s)
  elseif t or s then
    verdict = DUPLICATE
  end
  return t or s
end

-- waiting_of is how many tickets of a key are in line.
local function waiting_of(key)
  local sum = 0
  for class in pairs(line.urgencies) do
    local a = line.account(class .. ' ' .. key)
    if a then sum = sum + a.waiting end
  end
  return sum
end

-- admit says whether there is room for one more.
local function admit()
  if books.gate == DRAINING then return CLOSED end
  local illness = ALL_DOWN
  for _, s in ipairs(slots) do
    if not line.sick(s.state) or now - s.since <= grace then
      illness = DONE
      break
    end
    if s.state == POISONED then illness = ALL_POISONED end
  end
  if illness ~= DONE then return illness end
  if place_of > 0 then return DONE end
  if books.waiting >= tonumber(ARGV[4]) then return FULL end
  if key ~= '' and books.waiting >= tonumber(limit) and waiting_of(key) >= tonumber(limit) then return KEY_LIMIT end
  return DONE
end

-- at_once finds the slot that a job gets without standing in line.
local function at_once()
  if books.waiting == 0 and line.granting() then return line.ready(ticket.prefer) end
end

if not present() then
  if place_of > 0 then line.withdraw({ARGV[own + 7]}) end
  verdict = admit()
  if verdict == DONE then
    arrival = place_of > 0 and place_of or math.max(books.arrival + 1, now)
    books.arrival, ticket.arrival = math.max(books.arrival, arrival), arrival
    line.owner()
    local s = at_once()
    if s then
      books.version = books.version + 2 -- in line and out of it
      line.open(ticket)
      ticket.owner, ticket.cost = me, ticket.cost > 0 and ticket.cost or books.typical
      line.hand(s, ticket, id, BUSY)
    else
      queue = line.insert(ticket)
      if place_of == 0 then index = -1 end -- it is the last one
    end
  end
end
line.settle()
for i = 5, #grants, 5 do
  if grants[i] == id then queue = nil end -- it has its slot; a store that had lost it may know it as running and in line
end
if queue and books.claimants <= crowd and (not queue.within or queue.within.claimants <= crowd) then
  index = index and queue.waiting + index or line.rank(queue, ticket)
  if books.claimants == 1 and not queue.within then -- all that wait are of this queue
    place, work = index + 1, index * math.floor(queue.cost / queue.waiting)
  else
    place, work = line.stand(queue, index)
  end
end
line.tell_running()
return line.reply()
