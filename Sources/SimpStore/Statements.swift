/// The statements of a commit.
struct Statements {
  let insertSent: Statement
  let deleteSent: Statement
  let setOrder: Statement
  let insertReceived: Statement
  let markHandedOver: Statement
  let deleteReceived: Statement
  let getMark: Statement
  let setMark: Statement
  let setLogin: Statement
  let setCounters: Statement

  init(_ database: Database) throws(StoreError) {
    insertSent = try database.prepare("INSERT INTO outbox (counter, user, number, content) VALUES (?, ?, ?, ?)")
    deleteSent = try database.prepare("DELETE FROM outbox WHERE counter = ?")
    setOrder = try database.prepare("REPLACE INTO recipient (user, next) VALUES (?, ?)")
    insertReceived = try database.prepare(
      "INSERT INTO inbox (id, message, is_late, by_udp, is_redelivered) VALUES (?, ?, ?, ?, 0)")
    markHandedOver = try database.prepare("UPDATE inbox SET is_redelivered = 1 WHERE id = ?")
    deleteReceived = try database.prepare("DELETE FROM inbox WHERE id = ?")
    getMark = try database.prepare("SELECT base, words FROM mark WHERE user = ? AND device = ? AND conversation = ''")
    setMark = try database.prepare(
      "REPLACE INTO mark (user, device, conversation, base, words, used) VALUES (?, ?, '', ?, ?, ?)")
    setLogin = try database.prepare("UPDATE identity SET user = ?, server = ?, device = ?")
    setCounters = try database.prepare("UPDATE identity SET counter = ?, received = ?")
  }
}
