// SimpRedisTests
