package pgtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children returns the processes that a process started and that still run.
func children(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if _, of, ok := stat(pid); err == nil && ok && of == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	state, _, ok := stat(pid)
	return ok && state != "Z" && state != "X"
}

// stat returns the state and the parent of a process. They follow the program's name, which is in parentheses and may
// contain any.
func stat(pid int) (state string, parent int, ok bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", 0, false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 2 {
		return "", 0, false
	}
	parent, err = strconv.Atoi(fields[1])
	return fields[0], parent, err == nil
}
