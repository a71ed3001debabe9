"""Writes Hudi tables with Hudi's own Spark bundle. Run by test_hudi_spark.py, by a Python that has pyspark 3.5.

    python hudi_writer.py JAR CASES.json

CASES.json is a list of {"path", "options", "partitioned", "steps"}; a step is {"operation", "rows": [[key, partition,
value]]}. Beside each table ``<path>.truth.jsonl`` is left: key, partition, file name and value of every row, as Hudi
itself reads the table.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(jar: str, cases_path: str) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .appName("hudi-writer")
        .config("spark.jars", jar)
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .getOrCreate()
    )
    with open(cases_path, encoding="utf-8") as file:
        cases = json.load(file)
    for case in cases:
        for number, step in enumerate(case["steps"]):
            rows = [(k, p, number, v) for k, p, v in step["rows"]]
            frame = spark.createDataFrame(rows, "id string, p string, ts bigint, v int")
            options = {**case["options"], "hoodie.datasource.write.operation": step["operation"]}
            mode = "overwrite" if number == 0 else "append"
            frame.coalesce(1).write.format("hudi").options(**options).mode(mode).save(case["path"])
        read = spark.read.format("hudi").load(case["path"])
        with open(case["path"] + ".truth.jsonl", "w", encoding="utf-8") as out:
            names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name", "v"]
            for row in read.select(*names).collect():
                line = dict(zip(("key", "partition", "file", "v"), row, strict=True))
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
