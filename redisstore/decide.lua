-- Requests -----------------------------------------------------------------------------------------------------------

local makers = { [WINDOW] = makeWindow, [FIXED] = makeWindow, [LOG] = makeLog, [BUCKET] = makeBucket, [IN_FLIGHT] = makeInFlight }
local algorithms = {}

-- algorithmOf returns an algorithm by its number.
local function algorithmOf(number)
  if not algorithms[number] then
    if number == DEFAULT then
      algorithms[number] = makeDefault(algorithmOf(LOG), algorithmOf(WINDOW))
    else
      algorithms[number] = makers[number]()
    end
  end
  return algorithms[number]
end

-- readPeriod finds the current period of the calendar, if it is within the boundaries that came with a charge.
local function readPeriod(it, text, at)
  local starts = { unpack_('<dddd', text, at) }
  for n = 1, 3 do
    if starts[n] <= now and now < starts[n + 1] then
      it.begins, it.ends = starts[n], starts[n + 1]
    end
  end
  it.outside = not it.begins
end

-- read reads a charge.
local function read(key, text)
  local it, calendar, flags, at = { key = key }
  it.op, it.charges, it.algorithm, calendar, flags, it.overlap, it.first, it.countRefused, it.startsInParts, it.quota, it.window, it.cost, it.parts,
    it.part, it.burst, it.from, at = unpack_('<BBBBBBBBBddddddd', text)
  it.first, it.countRefused, it.startsInParts = it.first == 1, it.countRefused == 1, it.startsInParts == 1
  it.rule = algorithmOf(it.algorithm)
  it.forms = it.parts ~= 2 and FORMS[it.algorithm]
  it.most = it.algorithm == DEFAULT and MOST_LOGGED or it.quota
  it.capacity = it.algorithm == BUCKET and it.burst or it.quota
  it.cell = (it.algorithm == LOG or it.algorithm == BUCKET or it.parts > 2) and floor(it.window / 8)
  it.remembered, it.once, it.holding, it.whole = flags % 2 == 1, flags % 4 > 1, flags % 8 > 3, flags > 15
  if it.algorithm == IN_FLIGHT then
    it.id, at = unpack_('<c8', text, at)
  elseif flags % 16 > 7 then
    it.id, it.length, at = unpack_('<c8d', text, at)
    it.length = it.length > 0 and it.length -- how long units are held
  end
  if it.op == SETTLE then
    it.used, at = unpack_('<d', text, at)
  end
  if calendar == 1 then
    readPeriod(it, text, at)
  end
  return it
end

-- save writes the state of a charge's key, with it.holds. It lives until both have ended.
local function save(it)
  local last = #it.holds
  if last == 0 and it.new and not it.wrapped and type(redis.pcall('APPEND', it.key, it.new)) ~= 'table' then
    return -- without permission to append, all of it is written
  end
  local value = it.rule.value(it)
  if last == 0 and value == '' then
    call('DEL', it.key)
    return
  end
  local ends = value ~= '' and lastOf(it, it.rule.expires(it)) or 0
  if last > 0 then
    ends, value = max(ends, it.holds[last].ends), pack('<ddB', last, 0, HELD_FORM) .. packHolds(it.holds) .. value
  end
  if grace then
    call('SET', it.key, value, 'PX', max(1, ceil((ends - now) / 1000) + grace))
  else
    call('SET', it.key, value)
  end
end

-- admits reports whether a cost is admitted. An ID that already holds a slot or units does not need others.
local function admits(it)
  if it.cost <= it.room and it.cost <= it.capacity and (not it.holding or #it.open < MAX_HOLDS) then
    return true
  end
  return it.algorithm == IN_FLIGHT and it.rule.held(it) and true or it.holding and findHold(it) and true or false
end

local function take(items)
  local all = true
  for _, it in ipairs(items) do
    it.allowed = admits(it)
    all = all and it.allowed
  end
  for _, it in ipairs(items) do
    if not it.allowed then
      if it.countRefused and it.cost > 0 and it.cost <= it.capacity then
        it.changed = it.rule.refuse(it, it.cost) ~= false
      end
      if (it.moved or it.ahead) and not it.changed then
        moveBack(it)
        it.changed = true
      end
    elseif all then
      it.granted = it.cost
      if it.cost > 0 and it.holding then
        it.granted, it.changed = hold(it, it.cost), true
      elseif it.cost > 0 then
        it.rule.charge(it, it.cost)
        it.changed = true
      end
    end
    keepOpen(it)
  end
end

-- share sets the cost of all charges to the least that any of them admits.
local function share(items)
  local grant = MAX
  for _, it in ipairs(items) do
    grant = min(grant, it.cost, max(1, it.room))
  end
  for _, it in ipairs(items) do
    it.cost = grant
  end
end

local function renew(it)
  if it.length and findHold(it) then
    it.granted, it.changed = hold(it, 0), true
  elseif it.algorithm == IN_FLIGHT and it.rule.held(it) then
    it.rule.charge(it)
    it.granted, it.changed = 1, true
  elseif it.length or it.algorithm == IN_FLIGHT then
    it.allowed, it.lost = false, true
  end
  keepOpen(it)
end

-- apply carries out what does not depend on the remaining units.
local function apply(op, it)
  if op == CHARGE then
    it.granted = it.cost
    if it.cost > 0 then
      it.rule.charge(it, it.cost)
      it.changed = true
    end
  elseif op == GIVE_BACK then
    it.granted = it.rule.giveBack(it, it.cost, it.from)
    it.changed = it.granted > 0
  elseif op == RESET then
    call('DEL', it.key)
    it.moved, it.ahead = false, false
    it.rule.load(it)
  end
end

local function decide(op, items, memory, memo)
  if op <= TAKE_UP_TO then
    if op == TAKE_UP_TO then
      share(items)
    end
    if memo then
      memory.take(items, memo, take)
    else
      take(items)
    end
    return
  elseif op == SETTLE then
    memory.settle(items, memo)
  end
  for _, it in ipairs(items) do
    if op == PEEK then
      it.allowed = admits(it)
    elseif op == RENEW then
      renew(it)
    else
      apply(op, it)
      local moved = it.moved or it.ahead -- if writing moved the state back, the answer must still report it
      keepOpen(it)
      look(it)
      it.moved = it.moved or moved
    end
  end
end

-- undecided returns the requests that a fast path did not decide, from the key at which it ended.
local function undecided()
  local requests, k, returns = {}, unfit, 0
  for i = 0, charges - 1 do
    local more, which, cost, from = 0, 0
    if list then
      more, which, cost = unpack_('<BHd', list, 11 * i + 1)
      if more > 1 then
        from, more, returns = unpack_('<d', ARGV[3], 8 * returns + 1), more - 2, returns + 1
      end
    end
    if i >= decided then
      local it = read(KEYS[k], sub(ARGV[1], LIMIT * which + 18, LIMIT * which + LIMIT + 17))
      it.cost = cost or it.cost
      if from then
        it.op, it.from = GIVE_BACK, from
      elseif it.cost < 0 then
        it.op, it.cost = TAKE_UP_TO, -it.cost
      end
      requests[#requests + 1] = { it }
      k = k + 1 - more
    end
  end
  return requests
end

-- readAll reads all requests first: if now is outside the calendar periods that were sent, nothing is decided.
local function readAll()
  local requests, i = {}, 1
  while i <= #KEYS do
    local items = { read(KEYS[i], ARGV[i + 1]) }
    local outside = items[1].outside
    for j = 1, items[1].charges - 1 do
      items[j + 1] = read(KEYS[i + j], ARGV[i + j + 1])
      outside = outside or items[j + 1].outside
    end
    if outside then
      return nil
    end
    i = i + #items
    if items[1].remembered then
      items.hashes = i
      i = i + 2
    end
    requests[#requests + 1] = items
  end
  return requests
end

local requests
if path > 0 then
  requests = undecided()
else
  requests = readAll()
end
if not requests then
  return pack('<d', now)
end

-- answerOf returns the reply to a charge: the decision, and the state that the answer is derived from. If units are held, or if the
-- charge says so, that is all of it.
local function answerOf(it)
  local flags = (it.allowed and 1 or 0) + ((it.moved or it.ahead) and 2 or 0) + (it.repeated and 4 or 0) + (it.unsettled and 8 or 0) +
    (it.inParts and 32 or 0) + (it.lost and 128 or 0) + (it.notOnce and 256 or 0)
  local state, holds = '', ''
  if #it.holds > 0 or it.whole then
    flags, state, holds = flags + 64, (it.rule.encodeAll or it.rule.encode)(it), pack('<H', #it.holds) .. packHolds(it.holds)
  else
    state = it.rule.encode(it)
  end
  return pack('<HHddd', flags, #state % 65536, it.granted, it.cost, it.at) .. state .. holds
end

local memory
local replies = { pack('<dH', now, decided), reply }
for _, items in ipairs(requests) do
  local op, memo, version = items[1].op, nil, false -- version is one that is not known
  for _, it in ipairs(items) do
    it.rule.load(it)
    look(it)
    it.granted, it.allowed, it.changed = 0, true, false
    version = version or it.version
  end
  if op == SETTLE or items.hashes then
    memory = memory or makeMemory()
    memo = items.hashes and memory.recall(items.hashes, items) or {}
    version = version or memo.version
  end
  if not version then
    decide(op, items, memory, memo)
  end
  for _, it in ipairs(items) do
    if version then
      replies[#replies + 1] = pack('<HHddd', 16, version, 0, it.cost, now)
    else
      if it.changed then
        save(it)
      end
      replies[#replies + 1] = answerOf(it)
    end
  end
end
return table.concat(replies)
