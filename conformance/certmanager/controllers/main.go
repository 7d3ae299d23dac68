// The controllers of cert-manager, as its own program starts them: its module has them, and not the program.
//
//	controllers -kubeconfig FILE -solver IMAGE -nameservers ADDRESS
//
// There is no webhook, so that nothing is defaulted or refused before it is stored, and no metrics.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmechallenges"
	_ "github.com/cert-manager/cert-manager/pkg/controller/acmeorders"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/gateways"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificate-shim/listenerset"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/acme"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/acme"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"k8s.io/apimachinery/pkg/api/resource"
)

// How many things a controller does at a time, as cert-manager's program has it.
const workers = 5

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the `FILE` that says where the cluster is")
	solver := flag.String("solver", "", "the `IMAGE` that answers HTTP-01 challenges")
	nameservers := flag.String("nameservers", "", "the `ADDRESS` of the DNS server that challenges are checked with")
	flag.Parse()
	logf.InitLogs()
	root, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	root = logf.NewContext(root, logf.Log)
	if err := run(root, options(*kubeconfig, *solver, *nameservers)); err != nil {
		log.Fatal(err)
	}
}

// What differs from the defaults of cert-manager's program: waiting after a failure is for a test's patience.
func options(kubeconfig, solver, nameservers string) controller.ContextOptions {
	return controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   200,
		KubernetesAPIBurst: 400,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: "cert-manager"},
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverImage:                 solver,
			HTTP01SolverResourceRequestCPU:    resource.MustParse("10m"),
			HTTP01SolverResourceRequestMemory: resource.MustParse("64Mi"),
			HTTP01SolverResourceLimitsCPU:     resource.MustParse("100m"),
			HTTP01SolverResourceLimitsMemory:  resource.MustParse("64Mi"),
			ACMEHTTP01SolverRunAsNonRoot:      true,
			HTTP01SolverNameservers:           []string{nameservers},
			DNS01CheckRetryPeriod:             10 * time.Second,
		},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: 10 * time.Second,
			CertificateRequestMaximumBackoffDuration: time.Minute,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
		ConfigOptions:    controller.ConfigOptions{EnableGatewayAPI: true, EnableGatewayAPIListenerSet: true},
	}
}

func run(root context.Context, options controller.ContextOptions) error {
	factory, err := controller.NewContextFactory(root, options)
	if err != nil {
		return err
	}
	ended := make(chan error)
	for name, construct := range controller.Known() {
		one, err := construct(factory)
		if err != nil {
			return err
		}
		log.Printf("starting %s", name)
		go func() { ended <- one.Run(workers, root) }()
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	shared.SharedInformerFactory.Start(root.Done())
	shared.KubeSharedInformerFactory.Start(root.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(root.Done())
	shared.GWShared.Start(root.Done())
	for range controller.Known() {
		if err := <-ended; err != nil && root.Err() == nil {
			return err
		}
	}
	return nil
}
