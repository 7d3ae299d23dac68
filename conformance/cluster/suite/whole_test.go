package suite

import (
	"os"
	"regexp"
	"strings"
	"testing"

	confv1 "sigs.k8s.io/gateway-api/conformance/apis/v1"
	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
	"sigs.k8s.io/gateway-api/pkg/features"
	"sigs.k8s.io/yaml"
)

// The suite succeeds when a test is left out, because a feature is not claimed or a profile has no place for it. Here
// that is a failure: every test about Gateways must have passed, as far as the channel's CRDs allow it. OUTPUT is what
// TestConformance printed, REPORT what it wrote, CHANNEL what was installed.
func TestNothingWasLeftOut(t *testing.T) {
	passed := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^    --- PASS: TestConformance/(\S+)`).FindAllStringSubmatch(read(t, "OUTPUT"), -1) {
		passed[line[1]] = true
	}
	expected := 0
	for _, test := range tests.ConformanceTests {
		if isOurs(test) {
			expected++
			if !passed[test.ShortName] {
				t.Errorf("%s did not pass", test.ShortName)
			}
		}
	}
	t.Logf("%d tests about Gateways in the %s channel", expected, os.Getenv("CHANNEL"))

	var report confv1.ConformanceReport
	if err := yaml.Unmarshal([]byte(read(t, "REPORT")), &report); err != nil {
		t.Fatal(err)
	}
	if string(report.GatewayAPIChannel) != os.Getenv("CHANNEL") {
		t.Errorf("the report is about channel %s", report.GatewayAPIChannel)
	}
	if len(report.ProfileReports) != 5 {
		t.Errorf("%d profiles, not 5", len(report.ProfileReports))
	}
	for _, profile := range report.ProfileReports {
		t.Logf("%s: %d core tests, %s", profile.Name, profile.Core.Passed, profile.Summary)
		complete(t, profile.Name, profile.Core)
		if profile.Extended == nil {
			t.Errorf("%s: no extended tests", profile.Name)
			continue
		}
		t.Logf("%s: %d extended tests", profile.Name, profile.Extended.Passed)
		complete(t, profile.Name, profile.Extended.Status)
		for _, name := range profile.Extended.UnsupportedFeatures {
			if inChannel(features.FeatureName(name)) {
				t.Errorf("%s: %s is not supported", profile.Name, name)
			}
		}
	}
}

func complete(t *testing.T, profile string, status confv1.Status) {
	if status.Result != confv1.Success || status.Failed != 0 || status.Skipped != 0 {
		t.Errorf("%s: %s, failed %v, skipped %v", profile, status.Result, status.FailedTests, status.SkippedTests)
	}
}

// isOurs tells whether a test is about Gateways and can be run with the CRDs of the channel.
func isOurs(test suite.ConformanceTest) bool {
	for _, name := range test.Features {
		if strings.HasPrefix(string(name), string(features.SupportMesh)) || !inChannel(name) {
			return false
		}
	}
	return true
}

func inChannel(name features.FeatureName) bool {
	return os.Getenv("CHANNEL") == "experimental" || features.GetFeature(name).Channel == features.FeatureChannelStandard
}

func read(t *testing.T, variable string) string {
	content, err := os.ReadFile(os.Getenv(variable))
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return string(content)
}
