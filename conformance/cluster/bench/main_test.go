package main

import (
	"testing"
	"time"
)

func TestAPercentileIsNotTheMaximum(t *testing.T) {
	times := func(count int) []time.Duration {
		var times []time.Duration
		for number := range count {
			times = append(times, time.Duration(number+1)*time.Second)
		}
		return times
	}
	for _, c := range []struct {
		count, percent int
		expected       string
	}{
		{500, 50, "4m10s"}, {500, 99, "8m15s"}, {500, 100, "8m20s"},
		{101, 99, "1m40s"}, {100, 99, "1m39s"}, {99, 99, "-"}, {10, 90, "9s"}, {9, 90, "-"}, {1, 50, "-"}, {1, 100, "1s"},
	} {
		if found := at(times(c.count), c.percent); found != c.expected {
			t.Errorf("%d%% of %d: %s, not %s", c.percent, c.count, found, c.expected)
		}
	}
}
