package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// cost is what a process has used and holds.
type cost struct {
	cpu      time.Duration
	resident int64
}

// controller is the sum over all processes that are Tidegate's controller.
func controller() cost {
	var sum cost
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(err)
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(command, []byte("/tidegate\x00controller\x00")) {
			continue
		}
		found := of(filepath.Dir(path))
		sum.cpu += found.cpu
		sum.resident += found.resident
	}
	return sum
}

func of(process string) cost {
	var found cost
	stat, err := os.ReadFile(process + "/stat")
	must(err)
	// After the name, which may have anything in it: the 12th and 13th field, in hundredths of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		must(err)
		found.cpu += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(process + "/status")
	must(err)
	for line := range strings.Lines(string(status)) {
		var kibibytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kibibytes); err == nil {
			found.resident = kibibytes << 10
		}
	}
	return found
}

// requests counts what Tidegate's controller has asked of the API server; watches count when they end.
func requests(audit string) int {
	content, err := os.ReadFile(audit)
	must(err)
	return bytes.Count(content, []byte(`"username":"system:serviceaccount:tidegate-system:tidegate"`))
}
