//go:build !race

package config

import "testing"

func alone(*testing.T) {}
