#include <sqlite3.h>

// SQLITE_TRANSIENT is a cast that Swift does not see: SQLite copies the bytes before these return.
static inline int simp_bind_blob(sqlite3_stmt *statement, int index, const void *bytes, int count) {
  // Without bytes there may be no address either, which would be NULL instead of an empty blob.
  if (count == 0) return sqlite3_bind_zeroblob(statement, index, 0);
  return sqlite3_bind_blob(statement, index, bytes, count, SQLITE_TRANSIENT);
}

static inline int simp_bind_text(sqlite3_stmt *statement, int index, const char *text, int count) {
  return sqlite3_bind_text(statement, index, text, count, SQLITE_TRANSIENT);
}
