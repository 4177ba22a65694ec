/// The scripts of `EndpointDirectory`.
///
/// Epochs stay below 2^53, because Lua counts in doubles, and are written with `%.0f`, because Lua's own conversion
/// rounds to 14 digits. All keys of a script carry the same `{u:USER}`, so that they share a slot.
///
/// Those that write run also when Redis is full: they add little, and without them nobody could log in and take out what
/// fills it.
enum EndpointScripts {
  /// BOUND: how many outboxes of a user are remembered. A client makes a new one at each start; forgetting an old one
  /// is harmless, for an outbox that comes back presents its number, and numbers are never given twice.
  static let rememberedOutboxes = 256

  /// KEYS: devices. ARGV: outbox id, presented number, proposed epoch, send-only (1 or 0), outboxes remembered.
  /// Returns the device number and the epoch, the epoch 0 for a send-only login.
  static let openSession = """
    #!lua flags=allow-oom
    local devices, outbox, presented = KEYS[1], ARGV[1], tonumber(ARGV[2])
    local stored = redis.call('HMGET', devices, outbox, 'last', 'epoch')
    local number = tonumber(stored[1] or '0')
    local last = tonumber(stored[2] or '0')
    if number == 0 and presented > 0 then
      local holder = redis.call('HGET', devices, 'n:' .. ARGV[2])
      if not holder or holder == outbox then number = presented end
    end
    -- The last number given or taken is never below one that somebody holds.
    if number == 0 then number = last + 1 end
    if number > 16777215 then return redis.error_reply('NONUMBER the user has no device numbers left') end

    local epoch = math.max(tonumber(ARGV[3]), tonumber(stored[3] or '0') + 1)
    if epoch >= 9007199254740992 then return redis.error_reply('NOEPOCH the user has no epochs left') end

    local text = string.format('%.0f', number)
    redis.call('HSET', devices, outbox, text, 'n:' .. text, outbox, 'last', string.format('%.0f', math.max(last, number)))
    if ARGV[4] == '1' then
      epoch = 0
    else
      redis.call('HSET', devices, 'epoch', string.format('%.0f', epoch))
    end

    local limit = tonumber(ARGV[5])
    if redis.call('HLEN', devices) > 4 * limit then
      local fields, numbers = redis.call('HGETALL', devices), {}
      for i = 1, #fields, 2 do
        if string.sub(fields[i], 1, 2) == 'n:' then table.insert(numbers, tonumber(string.sub(fields[i], 3))) end
      end
      table.sort(numbers, function(a, b) return a > b end)
      for i = limit + 1, #numbers do
        if numbers[i] ~= number then
          local field = 'n:' .. string.format('%.0f', numbers[i])
          local id = redis.call('HGET', devices, field)
          redis.call('HDEL', devices, field)
          if id then redis.call('HDEL', devices, id) end
        end
      end
    end
    return {number, epoch}
    """

  /// KEYS: devices, endpoints, inbox. ARGV: device number, epoch, value without the state at its end. Returns 0 when a
  /// newer session exists, 1 when the endpoint stands there as catching up, 2 when it stands there as live.
  ///
  /// Live is only whose inbox is empty. `InboxScripts.append` adds nothing past a live endpoint without taking that word
  /// from it, so that an inbox that holds something and a live endpoint never stand together.
  ///
  /// Also raises the stored epoch and the highest number to this session's: after Redis lost its data the fence and
  /// the numbers are back with the first endpoint that is written again.
  static let writeEndpoint = """
    #!lua flags=allow-oom
    local devices, endpoints, device, epoch = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2])
    local stored = redis.call('HMGET', devices, 'epoch', 'last')
    if tonumber(stored[1] or '0') > epoch then return 0 end
    local older = {}
    local fields = redis.call('HGETALL', endpoints)
    for i = 1, #fields, 2 do
      local other = tonumber(string.match(fields[i + 1], 'epoch=(%d+)') or '0')
      if other > epoch then return 0 end
      if other < epoch and fields[i] ~= device then table.insert(older, fields[i]) end
    end
    local isLevel = redis.call('XLEN', KEYS[3]) == 0
    for _, field in ipairs(older) do redis.call('HDEL', endpoints, field) end
    redis.call('HSET', endpoints, device, ARGV[3] .. (isLevel and ' state=live' or ' state=catching'))
    if tonumber(stored[1] or '0') < epoch then redis.call('HSET', devices, 'epoch', ARGV[2]) end
    if tonumber(stored[2] or '0') < tonumber(device) then redis.call('HSET', devices, 'last', device) end
    return isLevel and 2 or 1
    """

  /// KEYS: endpoints. ARGV: device number, epoch. Returns 1 when the endpoint was this session's and is gone now.
  static let removeEndpoint = """
    local value = redis.call('HGET', KEYS[1], ARGV[1])
    if not value then return 0 end
    if tonumber(string.match(value, 'epoch=(%d+)') or '0') ~= tonumber(ARGV[2]) then return 0 end
    redis.call('HDEL', KEYS[1], ARGV[1])
    return 1
    """
}
