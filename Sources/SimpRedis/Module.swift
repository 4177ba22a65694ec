// SimpRedis
