package journal

import (
	"os"

	"github.com/slidegate/slidegate/internal/filelock"
)

// Holder describes the process that uses a folder, as in "process 12". It is empty if none does.
func Holder(dir string) string {
	file, err := os.Open(folder(dir).path(lockName))
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	if !filelock.Held(file) {
		return ""
	}
	return holder(file)
}
