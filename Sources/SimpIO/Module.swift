// SimpIO
