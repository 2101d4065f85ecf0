//go:build !(linux && (amd64 || arm64 || loong64 || riscv64))

package journal

import "errors"

// Map is not used here: records are written in order.
func (f diskFile) Map(int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func detach([]byte)                   {}
func unmap([]byte)                    {}
func populate([]byte, uint64, uint64) {}
