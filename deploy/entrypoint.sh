#!/bin/sh
# Entry point of the image. Spark on Kubernetes starts executor pods with the one argument `executor` and says everything else
# in variables (SPARK_DRIVER_URL, SPARK_EXECUTOR_*, SPARK_JAVA_OPT_<n>, SPARK_CLASSPATH); any other command is run as it is.
# With LAKEIDX_SPARK_SECRET every process of Spark (master, workers, drivers) asks the others for this secret, and what they send
# each other is encrypted; it is handed on in a file that only this user can read, not in a command line.
set -eu
if [ -n "${LAKEIDX_SPARK_SECRET:-}" ]; then
  SPARK_CONF_DIR=$(mktemp -d)
  export SPARK_CONF_DIR
  (umask 077; printf 'spark.authenticate true\nspark.network.crypto.enabled true\nspark.authenticate.secret %s\n' \
    "$LAKEIDX_SPARK_SECRET" > "$SPARK_CONF_DIR/spark-defaults.conf")
  unset LAKEIDX_SPARK_SECRET
fi
if [ "${1:-}" != executor ]; then
  exec tini -- "$@"
fi
home=${SPARK_HOME:-$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}
export SPARK_HOME="$home"
set --
number=0
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
  set -- "$@" "$option"
  number=$((number + 1))
done
exec tini -- java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
  -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$home/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
