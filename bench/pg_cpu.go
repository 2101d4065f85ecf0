package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit in which Linux counts the CPU time of processes, on all machines that Go supports.
const clockTick = 10 * time.Millisecond

// treeCPU returns the CPU time of a process and its running children, as reported by Linux; 0 on other systems.
func treeCPU(parent string) (total time.Duration) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		of, worked, ok := readStat(string(text))
		if ok && (of == parent || filepath.Base(filepath.Dir(file)) == parent) {
			total += worked
		}
	}
	return total
}

// readStat reads the parent of a process and its CPU time. The program's name comes first, in parentheses, and may contain
// parentheses.
func readStat(text string) (parent string, worked time.Duration, ok bool) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return "", 0, false
	}
	for _, field := range fields[11:13] { // utime and stime
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return "", 0, false
		}
		worked += time.Duration(ticks) * clockTick
	}
	return fields[1], worked, true
}
