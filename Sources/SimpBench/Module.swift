// SimpBench
