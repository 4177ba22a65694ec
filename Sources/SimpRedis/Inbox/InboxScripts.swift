/// The scripts of `InboxDirectory`.
///
/// All keys of a script carry the same `{u:USER}`, so that they share a slot:
///
/// - `endpoints`, `devices`: see `EndpointScripts`.
/// - `inbox`: a stream, one entry a message that the user's device does not have yet.
/// - `intake`: a hash. `messages` and `bytes` of the inbox; `b:FROM` the bytes of a sender in it; `senders` how many
///   `d:` fields there are; `d:FROM DEVICE` of a sender's device: how many of its messages are in the inbox, the highest
///   floor that it has shown, and the ranges of orders from there up that ever were in it.
/// - `idle`: a sorted set, the `d:` fields with nothing in the inbox by the time since when.
///
/// Numbers are below 2^53, because Lua counts in doubles. A script looks at everything before it writes, and what adds
/// to memory is its first write: so that a Redis that is full refuses all of it, or none.
enum InboxScripts {
  /// An entry's fields in their order: from, device, order, expires, payload.
  static let entryFields = ["f", "d", "o", "x", "p"]

  /// KEYS: endpoints, devices, inbox, intake, idle.
  /// ARGV: 1 from, 2 device, 3 order, 4 floor, 5 expires, 6 payload, 7 known dead, 8 spilling; limits: 9 messages,
  /// 10 bytes, 11 bytes of a sender, 12 messages for a stranger, 13 ranges, 14 senders' devices, 15 overhead of an entry;
  /// 16 follows (1 or 0).
  ///
  /// Returns the node and epoch of a live endpoint that is neither dead nor spilling; the entry's id when it was stored, as
  /// an array of one for a user who never logged in;
  /// 0 for a copy of what was stored; 2 when the one that it follows is not there; below 0 what is full: the number of the
  /// limit, counted from -1 for messages.
  ///
  /// Past a live endpoint nothing is added without taking that word from it, also when its session is dead: the next
  /// who asks comes here, too, and a session that was thought dead and is not sees that it has to catch up.
  static let append = """
    local from, order, dead, spilling = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[7]), tonumber(ARGV[8])
    local passed = {}
    local endpoints = redis.call('HGETALL', KEYS[1])
    for i = 1, #endpoints, 2 do
      local value = endpoints[i + 1]
      if string.sub(value, -11) == ' state=live' then
        local epoch = tonumber(string.match(value, 'epoch=(%d+)') or '0')
        if epoch > dead and epoch > spilling then return {string.match(value, 'node=(%S+)') or '', epoch} end
        table.insert(passed, endpoints[i])
        table.insert(passed, string.sub(value, 1, -5) .. 'catching')
      end
    end

    local sender = 'd:' .. from .. ' ' .. ARGV[2]
    local stored = redis.call('HMGET', KEYS[4], 'messages', 'bytes', 'b:' .. from, sender, 'senders')
    local count, top, ranges = string.match(stored[4] or '0 0 ', '^(%d+) (%d+) (.*)$')
    count, top = tonumber(count), tonumber(top)
    if order < top then return 0 end
    top = math.max(top, tonumber(ARGV[4]))

    -- The ranges with this order in it, without those below the floor.
    local first, last, kept = order, order, {}
    local below = 0
    for a, b in string.gmatch(ranges, '(%d+)-(%d+)') do
      local low, high = tonumber(a), tonumber(b)
      if low <= order and order <= high then return 0 end
      if high + 1 == order then
        first = low
      elseif low == order + 1 then
        last = high
      elseif high >= top then
        table.insert(kept, a .. '-' .. b)
        if high < order then below = #kept end
      end
    end
    if ARGV[16] == '1' and first == order and order > top then return 2 end
    table.insert(kept, below + 1, string.format('%.0f-%.0f', first, last))

    local size = #ARGV[6] + tonumber(ARGV[15])
    local messages, bytes = tonumber(stored[1] or '0') + 1, tonumber(stored[2] or '0') + size
    local ofSender, senders = tonumber(stored[3] or '0') + size, tonumber(stored[5] or '0')
    if messages > tonumber(ARGV[9]) then return -1 end
    if bytes > tonumber(ARGV[10]) then return -2 end
    if ofSender > tonumber(ARGV[11]) then return -3 end
    local isStranger = redis.call('HEXISTS', KEYS[2], 'epoch') == 0
    if isStranger and messages > tonumber(ARGV[12]) then return -4 end
    if #kept > tonumber(ARGV[13]) then return -5 end
    local forgotten
    if not stored[4] then
      if senders >= tonumber(ARGV[14]) then
        forgotten = redis.call('ZRANGE', KEYS[5], 0, 0)[1]
        if not forgotten then return -6 end
      else
        senders = senders + 1
      end
    end

    local id = redis.call('XADD', KEYS[3], '*', 'f', from, 'd', ARGV[2], 'o', ARGV[3], 'x', ARGV[5], 'p', ARGV[6])
    redis.call('HSET', KEYS[4], 'messages', messages, 'bytes', bytes, 'b:' .. from, ofSender, 'senders', senders,
      sender, string.format('%.0f %.0f ', count + 1, top) .. table.concat(kept, ','))
    if #passed > 0 then redis.call('HSET', KEYS[1], unpack(passed)) end
    if stored[4] and count == 0 then redis.call('ZREM', KEYS[5], sender) end
    if forgotten then
      redis.call('ZREM', KEYS[5], forgotten)
      redis.call('HDEL', KEYS[4], forgotten)
    end
    if messages == 1 then
      for i = 3, 5 do redis.call('PERSIST', KEYS[i]) end
    end
    return isStranger and {id} or id
    """

  /// KEYS: inbox, intake, idle. ARGV: how long in ms an empty inbox is remembered, overhead of an entry, then the ids of
  /// entries.
  ///
  /// Returns how many were there and are gone now, and how many are left.
  static let remove = """
    local overhead = tonumber(ARGV[2])
    local gone, bytes, counts, sizes = 0, 0, {}, {}
    for i = 3, #ARGV do
      local entry = redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1]
      if entry then
        redis.call('XDEL', KEYS[1], ARGV[i])
        local fields = entry[2]
        local sender, size = 'd:' .. fields[2] .. ' ' .. fields[4], #fields[10] + overhead
        gone, bytes = gone + 1, bytes + size
        counts[sender] = (counts[sender] or 0) + 1
        sizes[fields[2]] = (sizes[fields[2]] or 0) + size
      end
    end
    local left = redis.call('XLEN', KEYS[1])
    if gone == 0 then return {0, left} end

    redis.call('HINCRBY', KEYS[2], 'messages', -gone)
    redis.call('HINCRBY', KEYS[2], 'bytes', -bytes)
    for from, size in pairs(sizes) do
      if redis.call('HINCRBY', KEYS[2], 'b:' .. from, -size) <= 0 then redis.call('HDEL', KEYS[2], 'b:' .. from) end
    end
    local now = redis.call('TIME')[1]
    for sender, number in pairs(counts) do
      local count, rest = string.match(redis.call('HGET', KEYS[2], sender) or '', '^(%d+)( .*)$')
      if count then
        count = math.max(0, tonumber(count) - number)
        redis.call('HSET', KEYS[2], sender, string.format('%.0f', count) .. rest)
        if count == 0 then redis.call('ZADD', KEYS[3], now, sender) end
      end
    end
    if left == 0 then
      for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
    end
    return {gone, left}
    """

  /// KEYS: inbox. ARGV: where to begin, as XRANGE takes it; how many entries; how many bytes of payload.
  /// Returns entries as XRANGE does: at least one if there is one, and no more than either bound allows.
  static let read = """
    local start, wanted, room = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
    local taken = {}
    while true do
      local entries = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', math.min(wanted - #taken, 32))
      for _, entry in ipairs(entries) do
        room = room - #(entry[2][10] or '')
        if room < 0 and #taken > 0 then return taken end
        table.insert(taken, entry)
      end
      if #entries == 0 or #taken == wanted then return taken end
      start = '(' .. entries[#entries][1]
    end
    """
}
