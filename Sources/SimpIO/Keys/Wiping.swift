internal import CSimpLinux

extension [UInt8] {
  /// Overwrites the bytes before their memory goes back to the allocator, and leaves the array empty. For arrays that
  /// held keys, or packets with keys in them; of an array that somebody else holds as well only this one goes.
  ///
  /// - Parameter keepingCapacity: the memory is used again.
  public mutating func wipe(keepingCapacity: Bool = false) {
    // SAFETY: within the array's own storage, and a wipe that the compiler does not leave out.
    unsafe withUnsafeMutableBytes { buffer in
      if let start = buffer.baseAddress { unsafe simp_wipe(start, buffer.count) }
    }
    removeAll(keepingCapacity: keepingCapacity)
  }
}
