//! The files of the dashboard. Written by `npm run build` in `ui`.

use super::Asset;

pub(super) static ASSETS: [Asset; 3] = [
    Asset {
        path: "assets/index-Rl_noHLQ.js",
        content_type: "text/javascript; charset=utf-8",
        tag: "\"948611b49c3e055e\"",
        bytes: include_bytes!("../../../assets/ui/index-Rl_noHLQ.js.gz"),
    },
    Asset {
        path: "assets/style-DhR_ztGs.css",
        content_type: "text/css; charset=utf-8",
        tag: "\"39c1850da57a808d\"",
        bytes: include_bytes!("../../../assets/ui/style-DhR_ztGs.css.gz"),
    },
    Asset {
        path: "index.html",
        content_type: "text/html; charset=utf-8",
        tag: "\"2e04dfcd5dbaed75\"",
        bytes: include_bytes!("../../../assets/ui/index.html.gz"),
    },
];
