/// What comes in: datagrams are opened and cut into packets, and part (a) of receipts settles what was sent.
extension Channel {
  // MARK: - Receiving datagrams

  /// What an authentic datagram was.
  struct Arrival {
    /// Its number is the highest so far: its address is the newest.
    var isNewest: Bool
    /// Not all of its messages were taken.
    var isAnswered: Bool
  }

  /// Opens a datagram and hands its packets to `handle`, which returns whether the packet was taken (held or done,
  /// not answered with a refusal).
  ///
  /// - Parameter isProven: it came from the proven address, so it is tried however much junk there is.
  /// - Returns: nil for what is dropped in silence: another connection id, a bad tag, a replay.
  func receive(
    datagram: inout MutableSpan<UInt8>, isProven: Bool = true, now: Instant,
    handle: (PacketHeader, Span<UInt8>) throws(WireError) -> Bool
  ) -> Arrival? {
    guard let protection, let header = DatagramHeader(reading: datagram.span), header.connectionId == connectionId
    else { return nil }
    // Before the tag, which costs more than all the rest: recorded traffic is what anybody can send as fast as it comes.
    guard !replay.refuses(header.packetNumber) else {
      counters.datagramsReplayed += 1
      return nil
    }
    guard let key = phases.key(for: header) else {
      counters.datagramsOutOfPhase += 1
      return nil
    }
    guard isProven || forgeries.mayTry(now: now) else {
      counters.datagramsUntried += 1
      return nil
    }
    guard protection.open(&datagram, packetNumber: header.packetNumber, with: key) else {
      counters.datagramsForged += 1
      if !isProven { forgeries.failed() }
      if counters.datagramsForged >= phases.limits.forgedDatagrams { endUDP(.tooManyForged) }
      return nil
    }
    let isFirst = replay.insert(header.packetNumber)
    precondition(isFirst, "a datagram was opened although its number had been seen")
    guard follow(header.packetNumber, openedWith: key, now: now) else { return nil }
    counters.datagramsReceived += 1
    judgeReceiving()
    lastArrival = now
    let isNewest = header.packetNumber > highestReceived ?? 0 || highestReceived == nil
    if isNewest { highestReceived = header.packetNumber }
    let plain = datagram.span.extracting(
      WireLimits.datagramHeaderBytes..<datagram.count - WireLimits.datagramTagBytes)
    let content = unpack(plain, handle: handle)
    received.insert(
      header.packetNumber, eliciting: content.eliciting, wanted: content.wanted, answered: content.answered, now: now)
    return Arrival(isNewest: isNewest, isAnswered: content.answered)
  }

  /// Notes the key phase of an authentic datagram that came for the first time.
  private func follow(_ number: UInt64, openedWith key: OpeningKey, now: Instant) -> Bool {
    do throws(KeyPhaseError) {
      if try phases.opened(
        number, with: key, now: now, probeTimeout: sent.rtt.probeTimeout(receiptDelay: WireTimes.receiptDelay))
      {
        protection?.changeOpeningKey()
        counters.keyChangesOfPeer += 1
      }
      return true
    } catch {
      counters.keyChangesTooSoon += 1
      return false
    }
  }

  private func unpack(
    _ plain: Span<UInt8>, handle: (PacketHeader, Span<UInt8>) throws(WireError) -> Bool
  ) -> (eliciting: Bool, wanted: Bool, answered: Bool) {
    var content = (eliciting: false, wanted: false, answered: false)
    var offset = 0
    var isMalformed = false
    while offset < plain.count {
      let rest = plain.extracting(offset..<plain.count)
      guard rest.count >= WireLimits.headerBytes, let header = try? PacketHeader(reading: rest, limit: rest.count)
      else {
        // The rest cannot be read. It arrived all the same, and sending it again would not mend it.
        isMalformed = true
        break
      }
      let length = Int(header.length)
      if header.command?.isEliciting ?? true { content.eliciting = true }
      if header.flags.contains(.receiptWanted) { content.wanted = true }
      do throws(WireError) {
        if try !handle(header, rest.extracting(WireLimits.headerBytes..<length)) { content.answered = true }
      } catch {
        isMalformed = true
      }
      offset += length
    }
    if isMalformed {
      // What was in it and is missed is left to TCP: the receipt says that not all was taken.
      counters.datagramsMalformed += 1
      content.answered = true
    }
    return content
  }

  // MARK: - Receipts of what was sent

  /// Takes part (a) of a receipt.
  ///
  /// - Throws: `malformed` when it names what never left.
  func receive(_ receipt: DatagramReceipt, byUDP: Bool, now: Instant) throws(WireError) {
    do throws(WireError) {
      take(try sent.receive(receipt, byUDP: byUDP, now: now))
    } catch {
      counters.receiptsFalse += 1
      throw error
    }
    if let largest = receipt.ranges.first?.upperBound { phases.receipted(upTo: largest) }
  }

  /// The messages that arrived since the last call.
  func takeAccepted() -> [MessageKey] {
    defer { accepted.removeAll(keepingCapacity: true) }
    return accepted
  }

  func take(_ verdict: SentDatagrams.Verdict) {
    for (key, number) in verdict.taken where window.accept(key, datagram: number) { accepted.append(key) }
    for (key, number) in verdict.answered { window.markAnswered(key, datagram: number) }
    for (key, number) in verdict.lost { window.markLost(key, datagram: number) }
  }
}
